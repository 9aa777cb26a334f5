"""Several agents as a feature: their environments, sampling, evaluation and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainables.core.features import Feature


class Agents(Feature):
    """What an environment with several agents, or a setting of several agents, needs."""

    def module_slots(self, module_ids: Sequence[str], groups: Sequence[Any]) -> Any:
        """Return how many agents each module acts for; see `AgentModules`.

        Args:
            module_ids: The ids of the modules with networks.
            groups: The groups of agents of an environment.
        """
        from trainables.runtime.sampling.agents.modules import AgentModules

        return AgentModules(module_ids, groups)

    def policy_changes(self, algorithm: Any) -> Any:
        """Return what changes an algorithm's policies while it runs; see `PolicyChanges`."""
        from trainables.lifecycle.agents.policy_changes import PolicyChanges

        return PolicyChanges(algorithm)


FEATURE = Agents()
