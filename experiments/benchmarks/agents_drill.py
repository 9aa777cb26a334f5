"""The fault drill with several agents: who is followed, and which policies come on the way."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.drill_ledger import NOT_YET, Ledger
from trainables.algorithm import Algorithm
from trainables.core.data.batch import Rollout
from trainables.runtime.sampling.agents.episode_book import Match
from trainables.runtime.sampling.sampling_worker import Episodes

NUM_AGENTS = 4
AGENTS_SETTINGS: dict[str, Any] = {
    "env": "multi_agent_cartpole",
    "env_config": {"num_agents": NUM_AGENTS},
    "policies": ["left", "right"],
    "policy_mapping_fn": {"agent_0": "left", "agent_1": "left", "*": "right"},
}
LEAGUE_AGENTS = 2
LEAGUE_SETTINGS: dict[str, Any] = {
    "env": "multi_agent_cartpole",
    "env_config": {"num_agents": LEAGUE_AGENTS},
    "policies": ["main", "hunter"],
    "league": {
        "learners": {"main": "main", "hunter": "league_exploiter"},
        "freeze_every": 3,
        "max_copies": 4,
        "reset_probability": 0.0,
    },
}
LATE = "late"
"""The policy that is added; it acts for the last agent from then on."""


class AgentsLedger(Ledger):
    """Follows the column of every agent, by module.

    A column's clock is its agent's, so its last rows may be padding: where it ended is one of the
    observations behind its last valid row, and the last one if nobody acted in it, as other
    policies act for its agent. What it holds of rows in which nobody acts is any observation, also
    another column's. Environment steps are counted by the samples, rows by what arrived and what
    was learned from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_rows = 0

    def arrived(self, rollouts: dict[str, Rollout], episodes: Episodes) -> None:
        self.num_env_steps += episodes.num_env_steps
        for rollout in rollouts.values():
            self._add_columns(rollout)

    def _add_columns(self, rollout: Rollout) -> None:
        self.num_rows += int(rollout.valid.sum())
        for column, follows in enumerate(rollout.follows):
            first = rollout.obs[0, column].tobytes()
            goes_on = follows and rollout.valid[0, column]  # else an episode begins, or nobody acts
            if goes_on and first not in self._ends:
                self.problems.append(f"a column goes on where none ended: {NOT_YET}")
            if goes_on:
                self._ends.discard(first)
            valid = np.flatnonzero(rollout.valid[:, column])
            behind = valid[-1] + 1 if len(valid) else len(rollout.obs) - 1
            self._ends |= {obs.tobytes() for obs in rollout.obs[behind:, column]}
            if len(valid):
                self.uses.setdefault(_mark(rollout, column), 0)

    def learned(self, rollouts: dict[str, Rollout]) -> None:
        for rollout in rollouts.values():
            self.num_learned += int(rollout.valid.sum())
            for column in range(len(rollout.follows)):
                if not rollout.valid[:, column].any():
                    continue
                mark = _mark(rollout, column)
                if mark not in self.uses:
                    self.problems.append("a column is learned from that never arrived")
                self.uses[mark] = self.uses.get(mark, 0) + 1


def _mark(rollout: Rollout, column: int) -> bytes:
    """Return what tells a column from all others: what it saw and did in its valid rows."""
    valid = rollout.valid[:, column]
    return bytes(rollout.obs[:-1, column][valid].tobytes() + rollout.logp[:, column].tobytes())


class Newcomer:
    """Adds a policy while env runners are killed, and sees that all of them have it.

    Args:
        algo: What trains.
        after_s: Seconds after which it is added.
    """

    def __init__(self, algo: Algorithm, after_s: float):
        self._algo, self._after_s = algo, after_s
        self._is_there = False
        self._problems: list[str] = []

    def look(self, passed_s: float) -> None:
        """Add it once it is time; after each training step from then on, see who has it."""
        if not self._is_there and passed_s >= self._after_s:
            self._algo.add_policy(
                LATE,
                policy_mapping_fn={
                    "agent_0": "left", "agent_1": "left", "agent_3": LATE, "*": "right"
                },
            )  # fmt: skip
            self._is_there = True
            return
        if self._is_there:
            has_it = self._algo.env_runners.foreach_env_runner(_has_late)
            if not all(has_it):
                self._problems.append("an env runner does not have the policy that was added")

    def problems(self) -> list[str]:
        """Return what was wrong, and whether the next checkpoint lacks it or it never acted."""
        if not self._is_there:
            return ["no policy was added: the drill was too short"]
        if not self._algo.episodes.num_lifetime:
            return [*self._problems, "no episode has ended"]
        with tempfile.TemporaryDirectory() as folder:
            self._algo.save_checkpoint(folder)
            names = {path.name for path in (Path(folder) / "policies").iterdir()}
        missing = {"left", "right", LATE} - names
        return self._problems + [f"the checkpoint has no policy {name}" for name in missing]


class LeagueWatch:
    """Sees that a league counts each game that arrives once, and that all env runners play it.

    Args:
        algo: What trains.
    """

    def __init__(self, algo: Algorithm):
        self._algo = algo
        self._num_arrived = self._num_counted = 0
        self._problems: list[str] = []
        assert algo.league is not None
        group, book = algo.env_runners, algo.league.book
        sample, add_games = group.sample, book.add_games

        def watched_sample(**options: Any) -> Any:
            rollouts, episodes = sample(**options)
            self._num_arrived += len(episodes.returns)
            return rollouts, episodes

        def watched_games(matches: Sequence[Match]) -> None:
            self._num_counted += len(matches)
            add_games(matches)

        vars(group).update(sample=watched_sample)
        vars(book).update(add_games=watched_games)

    def look(self, passed_s: float) -> None:
        """See after a training step that env runners have who plays, and know who plays whom."""
        line_ups, players = self._algo.config.policy_mapping_fn, {*self._algo.policies}
        for theirs, policies in self._algo.env_runners.foreach_env_runner(_line_ups_and_policies):
            if theirs != line_ups or policies != players:
                self._problems.append("an env runner does not play the league as it is")

    def problems(self) -> list[str]:
        """Return what was wrong, and whether games were lost or counted twice."""
        assert self._algo.league is not None
        if self._num_counted != self._num_arrived:
            counted = f"{self._num_counted:,} games are counted"
            self._problems.append(f"{counted}, {self._num_arrived:,} were seen")
        if all(copy.policy_id.endswith("_v0") for copy in self._algo.league.book.copies):
            self._problems.append("nobody was frozen: the drill was too short")
        return self._problems


def _line_ups_and_policies(worker: Any) -> tuple[Any, set[str]]:
    return worker.config.policy_mapping_fn, {*worker.policies}


def _has_late(worker: Any) -> bool:
    return LATE in worker.policies
