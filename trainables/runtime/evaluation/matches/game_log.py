"""`GameLog`: keeps the games that end while a policy plays an opponent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.matches.games import Game
from trainables.runtime.evaluation.watch import Outcome
from trainables.runtime.sampling.agents.group_arrays import leaves

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: no product of it forgets a bit


class GameLog(AgentsWatch):
    """Looks on; see `Game`.

    Args:
        seats: The agents that the policy acts for, in turn of the episodes.

    Attributes:
        games: Those that have ended.
    """

    def __init__(self, seats: Sequence[Hashable]):
        self._seats = seats
        self._groups: Sequence[AgentGroup] = ()
        self.games: list[Game] = []

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        self._groups = groups
        self._courses = np.zeros(len(seeds), np.uint64)

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        parts = zip(self._groups, shown.groups, actions, strict=True)
        for number, (group, rows, done) in enumerate(parts):
            asked = np.flatnonzero(rows.acts)
            slots, places = np.divmod(asked, len(group.agents))
            digests = _digests([*leaves(rows.obs), *leaves(done)], asked)
            digests += places.astype(np.uint64) + np.uint64(number << 32)
            # Agents of a slot are added up: who acts at the same time has no order.
            moved = np.zeros_like(self._courses)
            np.add.at(moved, slots, digests * _FACTOR)
            is_moved = moved != 0
            self._courses[is_moved] = (self._courses * _FACTOR + moved)[is_moved]

    def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
        seat = seat_of(self._seats, episode)
        returns = episode.returns
        others = [total for agent, total in returns.items() if agent != seat]
        self.games.append(
            Game(
                int(episode.episode_id),
                seat,
                float(returns.get(seat, 0.0)),
                float(max(others, default=0.0)),
                outcome.length,
                int(self._courses[slot]),
            )
        )


def seat_of(seats: Sequence[Hashable], episode: AgentsEpisode) -> Hashable:
    """Return the agent that the policy acts for in an episode."""
    return seats[int(episode.episode_id) % len(seats)]


def _digests(batches: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return a number for each of the given rows of batches, `[M]`: the same for equal rows."""
    found = np.zeros(len(rows), np.uint64)
    for batch in batches:
        values = np.asarray(batch)[rows].reshape(len(rows), -1).astype(np.float64)
        bits = (values + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
        weights = (np.arange(1, bits.shape[1] + 1, dtype=np.uint64) * _FACTOR) | np.uint64(1)
        mixed = (bits ^ (bits >> np.uint64(29))) * weights
        found = found * _FACTOR + mixed.sum(axis=1, dtype=np.uint64)
    return found
