"""The fault drill with several agents: who is followed, and a policy that is added on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.drill_ledger import NOT_YET, Ledger
from trainables.algorithm import Algorithm
from trainables.core.data.batch import Rollout
from trainables.runtime.sampling.episodes import Episodes

NUM_AGENTS = 4
AGENTS_SETTINGS: dict[str, Any] = {
    "env": "multi_agent_cartpole",
    "env_config": {"num_agents": NUM_AGENTS},
    "policies": ["left", "right"],
    "policy_mapping_fn": {"agent_0": "left", "agent_1": "left", "*": "right"},
}
LATE = "late"
"""The policy that is added; it acts for the last agent from then on."""


class AgentsLedger(Ledger):
    """Follows the column of every agent, by module.

    A column's clock is its agent's, so its last rows may be padding: where it ended is one of the
    observations behind its last valid row. Environment steps are counted by the samples, rows by
    what arrived and what was learned from.
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
            self._ends.discard(first)
            valid = np.flatnonzero(rollout.valid[:, column])
            behind = valid[-1] + 1 if len(valid) else 0
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


def _has_late(worker: Any) -> bool:
    return LATE in worker.policies
