"""Who looks on while episodes with several agents are played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
)
from trainables.runtime.evaluation.watch import Outcome


class AgentsWatch:
    """Looks on; every method may stay as it is."""

    def enter(self, env: AgentsVectorEnv) -> None:
        """Take note of the slots that are stepped, before they are reset."""

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        """Take note of the episodes that the slots begin.

        Args:
            groups: The groups of agents.
            seeds: The seeds that the slots' environments are reset with, `[N]`.
        """

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        """Take note of what agents do, before the environment is stepped.

        Args:
            shown: What agents act on; the environment may write over it later.
            actions: The actions, a batch `[R, …]` for each group; only those of agents that were
                asked count.
            episodes: The episodes of the slots, `[N]`.
            runs: Slots whose episode counts, `[N]`.
        """

    def step(self, step: AgentsStep, is_over: np.ndarray) -> None:
        """Take note of what that led to.

        Args:
            step: What the environment gave.
            is_over: Slots whose episode ends here, also by the evaluation's limit, `[N]`.
        """

    def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
        """Take note of the end of a slot's episode, after `step`."""
