"""Sequences of replayed rows: new ones first and each once, then any, with their latents."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from torch import Tensor

from trainables.core.data.batch import Batch, Rollout, tree_columns
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.draws import as_tensors


class SequenceReplay(ReplayBuffer):
    """A replay buffer of sequences with the reward and the end that *led to* each of their rows.

    What is new waits in line as sequences that follow one another, and is drawn first: whatever the
    training ratio, the newest experience is learned from at once. Before each row lies the state of
    the world model there: as it was in acting, and later as updates wrote it back, see
    `write_latents`.

    Args:
        options: Those of `ReplayBuffer`, with the layout of states before every row.
        length: Rows of a sequence.
    """

    def __init__(self, *options: Any, length: int):
        super().__init__(*options)
        self._length = length
        self._forget_line()

    def _forget_line(self) -> None:
        self._line: deque[tuple[int, int]] = deque()  # first position, counted for ever, and slot
        self._num_written = self._num_lined_up = 0  # positions, since the buffer was empty

    def clear(self) -> None:
        super().clear()
        self._forget_line()

    def add(self, rollout: Rollout) -> None:
        rows = self._rows
        before = self._oldest + rows.filled
        super().add(rollout)
        after = self._oldest + rows.filled
        self._num_written += (after - before) % rows.num_positions
        # The newest position is a sentinel's, which the next rollout overwrites.
        while self._num_lined_up + self._length < self._num_written:
            self._line.extend((self._num_lined_up, slot) for slot in range(self.num_slots))
            self._num_lined_up += self._length

    def num_sequences(self, length: int) -> int:
        return max(0, self._rows.filled - self._num_kept_apart - length) * self.num_slots

    @property
    def _oldest(self) -> int:
        """The oldest position: of all slots, whose time is one, as there is one agent."""
        return int(self._rows.oldest(np.array(0)))

    @property
    def _num_kept_apart(self) -> int:
        """Oldest rows that no sequence begins with: what led there is overwritten."""
        return int(self._rows.filled == self._rows.num_positions)

    def sample_sequences(self, batch_size: int, length: int, *, n_step: Any = 1) -> Batch:
        """Draw runs of consecutive rows, each of one slot; new ones first.

        Args:
            batch_size: Sequences B.
            length: Rows T of each.
            n_step: Returns are the dreams' matter: it is 1.

        Returns:
            Columns `[T, B, …]` on the CPU: ids, obs, valid, is_first, is_last; `rewards`, of the
            action that led to a row, 0 where an episode begins; `continues`, whether the row is no
            terminal state; and the states before the first rows, `[B, …]`, by
            `tree_of(batch, "state")`.

        Raises:
            ConfigError: if the buffer holds no such sequence.
        """
        rows = self._rows
        if not self.num_sequences(length):
            raise self._no_sequence(length)
        positions, slots = self._drawn(batch_size, length)
        ids = rows.next(slots, positions + np.arange(length)[:, None])
        led_here = rows.next(ids, -1)
        is_first = rows.read("is_first", ids)
        columns = {
            "ids": ids,
            "rewards": np.where(is_first, np.float32(0), rows.read("rewards", led_here)),
            "continues": is_first | ~rows.read("terminated", led_here),
            "valid": rows.read("valid", ids),
            "is_first": is_first,
            "is_last": rows.is_last(ids),
        }
        assert rows.states is not None
        state = tree_columns("state", as_tensors(rows.states.read(ids[0])))
        return as_tensors(columns) | self._obs("obs", rows.observations(ids)) | state

    def _drawn(self, batch_size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return positions in the ring and slots of first rows: of the line, then uniform."""
        rows = self._rows
        count = rows.filled - self._num_kept_apart - length
        first = self._oldest + self._num_kept_apart
        drawn = self._rng.integers(count * self.num_slots, size=batch_size)
        positions, slots = np.divmod(drawn, self.num_slots)
        positions += first
        oldest = self._num_written - rows.filled + self._num_kept_apart
        taken = 0
        while self._line and taken < batch_size:
            position, slot = self._line.popleft()
            if position >= oldest:  # else it is overwritten, in part or as a whole
                positions[taken], slots[taken] = first + position - oldest, slot
                taken += 1
        return positions, slots

    def write_latents(self, ids: Tensor, after: dict[str, Tensor]) -> None:
        """Keep states anew: those after rows are those before the next rows.

        Args:
            ids: Rows, as a sample gave them, `[T, B]`.
            after: The states after them by name, `[T, B, …]`.
        """
        rows = self._rows.next(ids.reshape(-1).cpu().numpy())
        arrays = {
            n: part.cpu().numpy().reshape(len(rows), *part.shape[2:]) for n, part in after.items()
        }
        states: Any = self._rows.states
        states.replace(rows, arrays)

    def get_state(self) -> dict[str, Any]:
        line = np.array(self._line, np.int64).reshape(-1, 2)
        counts = {"written": self._num_written, "lined_up": self._num_lined_up}
        return {**super().get_state(), "line": line, "line_counts": counts}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._line = deque((int(position), int(slot)) for position, slot in state["line"])
        counts = state["line_counts"]
        self._num_written, self._num_lined_up = int(counts["written"]), int(counts["lined_up"])
