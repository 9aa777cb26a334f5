"""`EpisodeRecorder`: writes the episodes that are played as recorded experience."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainables.core.policy.behaviour import Behaviour
from trainables.runtime.evaluation.watch import Outcome, PlayedStep, Watch
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.source import EpisodeWriter

_MOST_BYTES = 64 * 2**20  # of rows that wait for their episodes to end


class EpisodeRecorder(Watch):
    """Writes every episode when it has ended, long ones piece by piece.

    Args:
        behaviour: What acts in all slots.
        writer: What writes.
        spaces: Of the environment.
        name: What ids of episodes begin with: it tells those of several recordings apart.
        random_episodes: Whether each episode is to be played uniformly at random, in order of the
            episodes; None: none is.
        most_bytes: Beyond so many bytes of rows pieces of running episodes are written.

    Attributes:
        num_steps: Steps that were written.
    """

    wants_steps = True

    def __init__(
        self,
        behaviour: Behaviour,
        writer: EpisodeWriter,
        spaces: DataSpaces,
        name: str,
        random_episodes: np.ndarray | None = None,
        *,
        most_bytes: int = _MOST_BYTES,
    ):
        self._behaviour, self._writer = behaviour, writer
        self._obs_layout, self._action_layout = spaces.obs_layout, spaces.action_layout
        self._random, self._most_bytes = random_episodes, most_bytes
        self._name = name
        self._first = self._num_slots = self.num_steps = 0

    def begin(self, seeds: Sequence[int], share: bool) -> None:
        self._first += self._num_slots
        self._num_slots = len(seeds)
        self._runs = np.ones(self._num_slots, bool)
        self._begins = np.zeros(self._num_slots, np.int64)  # steps that were written of each
        self._restarts = np.zeros(self._num_slots, np.int64)
        self._clear()
        if self._random is not None:
            episodes = slice(self._first, self._first + self._num_slots)
            self._behaviour.random_slots = self._random[episodes]

    def step(self, step: PlayedStep) -> None:
        self._columns["obs"].append(self._obs_layout.rows(step.obs))
        self._columns["actions"].append(self._action_layout.rows(step.actions))
        self._columns["rewards"].append(np.asarray(step.rewards, np.float32))
        self._columns["logp"].append(self._behaviour.logp)
        self._held += self._columns["obs"][-1].nbytes + self._columns["actions"][-1].nbytes
        replaced = self._runs & ~step.counts  # by an environment that begins a new episode
        self._restarts += replaced
        self._begins[replaced] = 0
        self._first_rows[replaced] = len(self._columns["rewards"])
        ends = self._runs & step.counts & (step.terminated | step.truncated)
        is_full = self._held > self._most_bytes
        if not (ends.any() or is_full):
            return
        last = self._obs_layout.rows(step.next_obs)
        for slot in np.flatnonzero(self._runs if is_full else ends).tolist():
            flags = bool(step.terminated[slot]), bool(step.truncated[slot])
            self._write(slot, last[slot : slot + 1], *flags)
        self._runs &= ~ends
        if is_full:
            self._begins += len(self._columns["rewards"]) - self._first_rows
            self._clear()

    def ended(self, slot: int, outcome: Outcome) -> None:
        """Do nothing: the step has said so already."""

    def _clear(self) -> None:
        names = ("obs", "actions", "rewards", "logp")
        self._columns: dict[str, list[np.ndarray]] = {name: [] for name in names}
        self._held = 0
        self._first_rows = np.zeros(self._num_slots, np.int64)  # of the slots' episodes therein

    def _write(self, slot: int, last: np.ndarray, terminated: bool, truncated: bool) -> None:
        first = int(self._first_rows[slot])
        if first == len(self._columns["rewards"]):
            return
        columns = {
            name: np.stack([row[slot] for row in rows[first:]])
            for name, rows in self._columns.items()
        }
        logp, again = columns["logp"], int(self._restarts[slot])
        episode = f"{self._name}-{self._first + slot}" + (f"-{again}" if again else "")
        self._writer.write(
            Episode(
                np.concatenate([columns["obs"], last]),
                columns["actions"],
                columns["rewards"],
                terminated,
                truncated,
                None if np.isnan(logp).all() else logp,
                episode,
                int(self._begins[slot]),
            )
        )
        self.num_steps += len(logp)
