"""No environment as a feature: the spaces of an algorithm whose training steps none."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import Feature, feature
from trainables.lifecycle.spaces import Spaces, evaluation_env, overridden
from trainables.runtime.envs.kinds import AgentSlots


class NoEnv(Feature):
    """Finds out what policies see and do where the setting `env` does not say it."""

    def spaces(
        self,
        config: AlgorithmConfig,
        of_data: Callable[[], tuple[gym.Space, gym.Space] | None],
    ) -> Spaces:
        """Return the spaces of data, of settings, or of the environment of evaluations.

        Args:
            config: The algorithm's config.
            of_data: Says the spaces of the data, if they have any.

        Raises:
            ConfigError: if nothing says them, or if a setting does not fit what does.
        """
        said = of_data()
        if said is not None:
            return overridden(config, Spaces(*said), "the data's")
        if config.observation_space is not None and config.action_space is not None:
            return Spaces(config.observation_space, config.action_space)
        if config.evaluation_env is None:
            raise ConfigError(
                "nothing says the spaces: set observation_space and action_space, or env, or an "
                "environment to evaluate in (evaluation_config: {env: …}), which has them, too"
            )
        return overridden(config, _evaluation_spaces(config), "the environment's")


def _evaluation_spaces(config: AlgorithmConfig) -> Spaces:
    with evaluation_env(config) as env:
        if isinstance(env, AgentSlots):
            spaces: Spaces = feature("agents").spaces_of_all(config, env)
            return spaces
        return Spaces(env.single_observation_space, env.single_action_space)


FEATURE = NoEnv()
