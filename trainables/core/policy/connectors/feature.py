"""Connectors that users give in the config, made for a policy or a learner."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from trainables.core.features import Feature
from trainables.core.policy.connectors.given import (
    Connector,
    EnvSpaces,
    made_connectors,
    make_connectors,
)
from trainables.core.policy.connectors.pipelines import EnvToModule, ModuleToEnv
from trainables.core.policy.policy import Policy


class Connectors(Feature):
    """Makes the functions that users put before a policy, behind it, and before a learner."""

    made_connectors = staticmethod(made_connectors)

    def pipelines(
        self, before: Any, behind: Any, observation_space: gym.Space, action_space: gym.Space
    ) -> tuple[EnvToModule | None, ModuleToEnv | None]:
        """Return the connectors of a policy; None where there are none.

        Args:
            before: The setting `env_to_module_connector`.
            behind: The setting `module_to_env_connector`.
            observation_space: The space of the environment's observations.
            action_space: The space of the environment's actions.

        Raises:
            ConfigError: naming the connector and what is wrong with it.
        """
        spaces = EnvSpaces(observation_space, action_space)
        first = make_connectors(before, "env_to_module_connector", spaces)
        last = make_connectors(behind, "module_to_env_connector", spaces)
        return (
            EnvToModule(first, observation_space) if first else None,
            ModuleToEnv(last, action_space) if last else None,
        )

    def of_learner(self, given: Any, policy: Policy | None) -> list[Connector]:
        """Return the connectors of a learner.

        Args:
            given: The setting `learner_connector`.
            policy: Whose spaces factories get; they need it.

        Raises:
            ConfigError: naming the connector and what is wrong with it.
        """
        spaces = None
        if policy is not None:
            spaces = EnvSpaces(policy.observation_space, policy.action_space)
        return make_connectors(given, "learner_connector", spaces)


FEATURE = Connectors()
