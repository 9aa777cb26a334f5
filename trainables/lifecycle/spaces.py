"""The spaces that policies are made for: an environment's, those of data, or of settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

import gymnasium as gym
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.runtime.envs.kinds import AgentSlots, AnyVectorEnv
from trainables.runtime.envs.make import make_slots


class Spaces(NamedTuple):
    """What a policy sees of one slot, and what it does."""

    observation: gym.Space
    action: gym.Space


def policy_spaces(
    config: AlgorithmConfig,
    env: VectorEnv | None,
    of_data: Callable[[], tuple[gym.Space, gym.Space] | None],
) -> Spaces:
    """Return the spaces of an environment or of data, or those that settings put in their place.

    Args:
        config: The algorithm's config.
        env: The environment that the setting `env` names; None if it names none.
        of_data: Says the spaces of the data, if they have any: asked if there is no environment.

    Raises:
        ConfigError: if nothing says them, or if a setting does not fit what does.
    """
    if env is not None:
        found = Spaces(env.single_observation_space, env.single_action_space)
        return overridden(config, found, "the environment's")
    spaces: Spaces = feature("no_env").spaces(config, of_data)
    return spaces


def module_spaces(
    config: AlgorithmConfig,
    env: AnyVectorEnv | None,
    of_data: Callable[[str], tuple[gym.Space, gym.Space] | None],
    module_ids: Collection[str],
) -> dict[str, Spaces]:
    """Return the spaces of each module; see `policy_spaces`.

    With several agents they are those of the agents that are mapped to it, in the environment or
    in the data.

    Args:
        config: The algorithm's config.
        env: The environment that the setting `env` names; None if it names none.
        of_data: `Algorithm.spaces` of a module, which is asked if there is no environment.
        module_ids: The ids of the modules.

    Raises:
        ConfigError: if nothing says them, or if a setting does not fit what does.
    """
    if isinstance(env, AgentSlots) or (env is None and config.is_multi_agent()):
        spaces: dict[str, Spaces] = feature("agents").module_spaces(
            config, env, of_data, module_ids
        )
        return spaces
    of_any = partial(of_data, next(iter(module_ids)))
    return dict.fromkeys(module_ids, policy_spaces(config, env, of_any))


@contextmanager
def open_env(config: AlgorithmConfig, *, training: bool) -> Iterator[AnyVectorEnv]:
    """Make one slot of the environment that the setting `env` names, to ask it; close it after.

    Raises:
        ConfigError: if it cannot be made.
    """
    env = make_slots(config, config.env, config.env_config_for(training=training))
    try:
        yield env
    finally:
        env.close()


def evaluation_env(config: AlgorithmConfig) -> AbstractContextManager[AnyVectorEnv]:
    """Make one slot of the environment of evaluations, to ask it; close it after."""
    return open_env(config.get_evaluation_config_object(), training=False)


def overridden(config: AlgorithmConfig, found: Spaces, whose: str) -> Spaces:
    """Return spaces that were found, or those that settings put in their place.

    Args:
        config: The algorithm's config.
        found: What was found.
        whose: Whose spaces these are, in words.

    Raises:
        ConfigError: for a setting that does not fit.
    """
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
