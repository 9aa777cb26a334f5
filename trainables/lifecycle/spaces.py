"""The spaces that policies are made for: an environment's, those of data, or of settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import evaluation_options, make_vector_env
from trainables.runtime.envs.multi_agent.make import AnyVectorEnv
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv


class Spaces(NamedTuple):
    """What a policy sees of one slot, and what it does."""

    observation: gym.Space
    action: gym.Space


def policy_spaces(
    config: AlgorithmConfig,
    env: VectorEnv | None,
    of_data: Callable[[Any], tuple[gym.Space, gym.Space] | None],
) -> Spaces:
    """Return the spaces of an environment or of data, or those that settings put in their place.

    Args:
        config: The algorithm's config.
        env: The environment that the setting `env` names; None if it names none.
        of_data: `Algorithm.spaces`, which is asked if there is no environment.

    Raises:
        ConfigError: if nothing says them, or if a setting does not fit what does.
    """
    if env is not None:
        found = Spaces(env.single_observation_space, env.single_action_space)
        return _overridden(config, found, "the environment's")
    said = of_data(config)
    if said is not None:
        return _overridden(config, Spaces(*said), "the data's")
    if config.observation_space is not None and config.action_space is not None:
        return Spaces(config.observation_space, config.action_space)
    if config.evaluation_env is None:
        raise ConfigError(
            "nothing says the spaces: set observation_space and action_space, or env, or an "
            "environment to evaluate in (evaluation_config: {env: …}), which has them, too"
        )
    return _overridden(config, _evaluation_spaces(config), "the environment's")


def module_spaces(
    config: AlgorithmConfig,
    env: AnyVectorEnv | None,
    of_data: Callable[[Any], tuple[gym.Space, gym.Space] | None],
    module_ids: Collection[str],
) -> dict[str, Spaces]:
    """Return the spaces of each module; see `policy_spaces`.

    With several agents they are those of the agents that are mapped to it.

    Args:
        config: The algorithm's config.
        env: The environment that the setting `env` names; None if it names none.
        of_data: `Algorithm.spaces`, which is asked if there is no environment.
        module_ids: The ids of the modules.

    Raises:
        ConfigError: if nothing says them, or if a setting does not fit what does.
    """
    if not isinstance(env, AgentsVectorEnv):
        return dict.fromkeys(module_ids, policy_spaces(config, env, of_data))
    specs, _ = config.get_multi_agent_setup(env=env)
    found = {}
    for module_id in module_ids:
        observation, action = specs[module_id].observation_space, specs[module_id].action_space
        assert observation is not None and action is not None
        found[module_id] = Spaces(observation, action)
    return found


def _evaluation_spaces(config: AlgorithmConfig) -> Spaces:
    evaluated = config.get_evaluation_config_object()
    env = make_vector_env(
        evaluated.env,
        evaluated.env_config_for(training=False),
        options=evaluation_options(evaluated, 0, None),
    )
    try:
        return Spaces(env.single_observation_space, env.single_action_space)
    finally:
        env.close()


def _overridden(config: AlgorithmConfig, found: Spaces, whose: str) -> Spaces:
    return Spaces(
        _space_of(config, "observation_space", found.observation, whose),
        _space_of(config, "action_space", found.action, whose),
    )


def _space_of(config: AlgorithmConfig, setting: str, found: gym.Space, whose: str) -> gym.Space:
    """Return the space that was found, or the one that a setting puts in its place."""
    given: gym.Space | None = config[setting]
    if given is None:
        return found
    problem = space_mismatch(given, found)
    if problem is not None:
        raise ConfigError(
            f"{setting} = {given} does not fit {whose} {found}: {problem}; allowed: other bounds"
        )
    return given
