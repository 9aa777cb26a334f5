"""`Episodes`: what a sample says besides its rollouts."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainables.core.policy.connectors.filter import RunningMoments
from trainables.runtime.callbacks.custom_metrics import Logged, extend


class Episodes:
    """Returns and lengths of the episodes that ended in a sample, in order; and what else it says.

    Attributes:
        returns: Sums of rewards, of all agents where there are several.
        lengths: Environment steps.
        num_env_steps: Environment steps of the sample, whether an episode ended or not.
        num_agent_steps: Actions of agents in it; 0 where there is one agent.
        num_restarts: How many environments were replaced.
        logged: What callbacks have logged, and with several agents their returns.
        matches: The same episodes as games, each a `Match`, where a league plays them.
    """

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.num_env_steps = self.num_agent_steps = 0
        self.num_restarts = 0
        self.logged: Logged = {}
        self.matches: list[Any] = []

    def extend(self, other: Episodes) -> None:
        """Append the episodes of another."""
        self.returns += other.returns
        self.lengths += other.lengths
        self.num_env_steps += other.num_env_steps
        self.num_agent_steps += other.num_agent_steps
        self.num_restarts += other.num_restarts
        extend(self.logged, other.logged)
        self.matches += other.matches


class SampleReport(NamedTuple):
    """What the driver wants to know of a sample at once; the rollouts are apart.

    Attributes:
        num_env_steps: Environment steps: those that only reset do not count.
        episodes: The episodes that ended.
        weights_version: The version of the weights that acted.
        moments: What observation filters have to learn of it, by module id.
    """

    num_env_steps: int
    episodes: Episodes
    weights_version: int
    moments: dict[str, RunningMoments]
