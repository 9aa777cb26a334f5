"""The spaces that policies of several agents are made for: the environment's, or those of data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import gymnasium as gym

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import all_policies
from trainables.lifecycle.spaces import Spaces, evaluation_env, overridden
from trainables.runtime.envs.kinds import AnyVectorEnv


def module_spaces(
    config: AlgorithmConfig,
    env: AnyVectorEnv | None,
    of_data: Callable[[str], tuple[gym.Space, gym.Space] | None],
    module_ids: Collection[str],
) -> dict[str, Spaces]:
    """Return the spaces of each module: those of the agents that are mapped to it.

    Args:
        config: The algorithm's config.
        env: An environment with several agents; None if the setting `env` names none.
        of_data: `Algorithm.spaces` of a module, which is asked if there is no environment.
        module_ids: The ids of the modules.

    Raises:
        ConfigError: if nothing says them, or if a setting does not fit what does.
    """
    if env is not None:
        return _agents_spaces(config, module_ids, env=env)
    given = {m: _spaces_without_env(config, of_data, m) for m in module_ids}
    known = {m: spaces for m, spaces in given.items() if spaces is not None}
    if len(known) == len(given) or config.evaluation_env is None:
        return _agents_spaces(config, module_ids, spaces=known)
    with evaluation_env(config) as evaluated:
        return _agents_spaces(config, module_ids, env=evaluated, spaces=known)


def spaces_of_all(config: AlgorithmConfig, env: AnyVectorEnv) -> Spaces:
    """Return the spaces of the only policy, which acts for all agents of an environment."""
    [spaces] = _agents_spaces(config, [*all_policies(config)], env=env).values()
    return spaces


def _spaces_without_env(
    config: AlgorithmConfig,
    of_data: Callable[[str], tuple[gym.Space, gym.Space] | None],
    module_id: str,
) -> Spaces | None:
    """Return the spaces of the data of a module; None: they say none."""
    spec = all_policies(config)[module_id]
    if spec.observation_space is not None and spec.action_space is not None:
        return Spaces(spec.observation_space, spec.action_space)
    said = of_data(module_id)
    return None if said is None else overridden(config, Spaces(*said), f"the data of {module_id}")


def _agents_spaces(
    config: AlgorithmConfig,
    module_ids: Collection[str],
    *,
    env: AnyVectorEnv | None = None,
    spaces: Mapping[str, tuple[gym.Space, gym.Space]] | None = None,
) -> dict[str, Spaces]:
    """Return what the agents of each module see and do, by an environment, or as it is given."""
    specs, _ = config.get_multi_agent_setup(env=env, spaces=spaces)
    found = {}
    for module_id in module_ids:
        observation, action = specs[module_id].observation_space, specs[module_id].action_space
        assert observation is not None and action is not None
        found[module_id] = Spaces(observation, action)
    return found
