"""`EpisodeBook`: the episodes that run in slots with several agents, and what they came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.data.stored import like
from trainables.runtime.callbacks.custom_metrics import OWN, MetricsLogger
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.sampling.agents.agents_now import AgentsNow


class EpisodeBook:
    """Counts rewards and steps of the episode in each slot.

    Args:
        groups: The groups of agents.
        num_slots: Slots of the environment, N.
        worker: What samples or evaluates the episodes.
        first_episode: The id of the first episode.
        policy_map: The policies that act, by id.
        is_evaluation: Whether this is an evaluation.

    Attributes:
        now: What is known of the episodes that run.
        episodes: The episode that runs in each slot, `[N]`; one that is over until the slot resets.
    """

    def __init__(
        self,
        groups: Sequence[AgentGroup],
        num_slots: int,
        worker: Any,
        first_episode: int = 0,
        *,
        policy_map: Mapping[str, Any],
        is_evaluation: bool = False,
    ):
        self._groups, self._num_slots, self._worker = groups, num_slots, worker
        self._num_begun = first_episode
        self.now = AgentsNow(groups, num_slots, policy_map, is_evaluation)
        self.episodes: list[AgentsEpisode] = []

    def begin(self, first: AgentsStep) -> None:
        """Begin a new episode in every slot.

        Args:
            first: What the reset of all slots gave.
        """
        self._begin_all()
        self.now.show(first)

    def _begin_all(self) -> None:
        self.now.clear()
        self.episodes = [self._begun(slot) for slot in range(self._num_slots)]

    def _begun(self, slot: int) -> AgentsEpisode:
        self._num_begun += 1
        return AgentsEpisode(self._num_begun - 1, slot, self._worker, _now=self.now)

    @property
    def lengths(self) -> np.ndarray:
        """Environment steps of the episodes, `[N]`."""
        return self.now.lengths

    def count(self, step: AgentsStep) -> list[AgentsEpisode]:
        """Count a step of all slots; return the episodes that it ends.

        The episode of an environment that was replaced counts nowhere.
        """
        some_reset = bool(np.count_nonzero(step.resets))  # faster than `any`, of as few
        if some_reset:
            for slot in np.flatnonzero(step.resets).tolist():
                self.now.forget(slot)
                self.episodes[slot] = self._begun(slot)
        now = self.now
        now.show(step)
        now.lengths += ~step.resets if some_reset else 1
        for returns, rows in zip(now.returns, step.groups, strict=True):
            returns += rows.rewards
        if not np.count_nonzero(step.is_over):
            return []
        return [self.episodes[slot] for slot in np.flatnonzero(step.is_over).tolist()]

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what runs."""
        return {
            "num_begun": self._num_begun,
            "returns": [returns.copy() for returns in self.now.returns],
            "lengths": self.lengths.copy(),
            "ids": [episode.episode_id for episode in self.episodes],
            "policies": [self._policies_in(episode) for episode in self.episodes],
        }

    def _policies_in(self, episode: AgentsEpisode) -> list[str]:
        """Return the policy of each agent, in order of the groups; "" of one that has none yet."""
        agents = [agent for group in self._groups for agent in group.agents]
        return [episode.policy_of.get(agent, "") for agent in agents]

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; what callbacks noted in the episodes is lost."""
        self._begin_all()
        self._num_begun = int(state["num_begun"])
        self.now.returns = [
            like(own, given, "returns")
            for own, given in zip(self.now.returns, state["returns"], strict=True)
        ]
        self.now.lengths = like(self.lengths, state["lengths"], "lengths")
        agents = [agent for group in self._groups for agent in group.agents]
        for slot, episode in enumerate(self.episodes):
            episode.episode_id = int(state["ids"][slot])
            policies = zip(agents, state["policies"][slot], strict=True)
            episode.policy_of = {agent: policy for agent, policy in policies if policy}


def log_returns(episode: AgentsEpisode, logger: MetricsLogger) -> None:
    """Log the returns of the agents of an episode that has ended, by agent and by module."""
    by_module: dict[str, list[float]] = {}
    for agent, total in episode.returns.items():
        by_module.setdefault(episode.policy_of[agent], []).append(total)
        logger.log_value(f"{OWN}agent/{agent}/episode_return", total)
    for module_id, totals in by_module.items():
        logger.log_together(f"{OWN}module/{module_id}/episode_return", totals)


class Match(NamedTuple):
    """A game of two agents that has ended: their policies, and their returns."""

    first: str
    second: str
    first_return: float
    second_return: float


def match_of(episode: AgentsEpisode) -> Match:
    """Return an episode of two agents that has ended as a game of their policies."""
    (first, its), (second, others) = episode.returns.items()
    policies = episode.policy_of
    return Match(policies[first], policies[second], float(its), float(others))
