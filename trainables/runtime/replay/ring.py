"""A ring of rollouts in columns, each observation stored once.

One ring for all slots, see `Rows`, which has what is read of it. Each slot has a position of its
own, which moves as its time goes by: an agent that waits for others writes nothing.

The successor of a row is the observation of the next row. After a slot's newest position lies a
*sentinel*: rows that hold the last successors and are not valid. The next rollout overwrites it if
it goes on where the last one ended; if not, the sentinel stays and is the seam between the two. So
the next row of a valid one is always its successor, and no window crosses the write pointer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.runtime.replay.rows import Rows
from trainables.runtime.replay.stores import (
    ObservationStore,
    Places,
    StateLayout,
    StateStore,
    make_observation_store,
)

_FROM_ROLLOUT = ("actions", "rewards", "terminated", "truncated", "valid")

Layout = dict[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and dtype of one row's value, by column."""


class _Where(NamedTuple):
    """Where a rollout goes.

    Attributes:
        start: The position of each slot's first row, `[N]`.
        lengths: The rows of each slot, `[N]`.
        before: The rows before the first ones, `[N]`.
        last: The rows of the sentinels, `[N]`.
        places: The rows to write, sentinels too, and which times of the rollout go there.
        changed: The rows before the first ones, then all that are written, `[M]`.
    """

    start: np.ndarray
    lengths: np.ndarray
    before: Places
    last: Places
    places: list[tuple[Places, Any]]
    changed: np.ndarray


class Ring(Rows):
    """The last positions of all slots' time.

    Args:
        num_positions: Rows of each slot.
        num_slots: Columns N of every rollout.
        layout: How observations are stored.
        storage: Where, see `make_observation_store`.
        action_shape: The shape of one action.
        action_dtype: The dtype of actions.
        num_frames: Observations that are read as one.
        states: Which recurrent states are kept, if any; the positions are a multiple of its stride.

    Attributes:
        layout: Shape and dtype of one row's value, by column.
        of_last: Those of the `extra` columns that last observations have values in, too.
        num_added: Valid rows that were ever added.
    """

    obs: ObservationStore
    states: StateStore | None

    def __init__(
        self,
        num_positions: int,
        num_slots: int,
        layout: ObservationLayout,
        storage: str,
        action_shape: tuple[int, ...],
        action_dtype: np.dtype,
        num_frames: int = 1,
        states: StateLayout | None = None,
    ):
        self.num_positions, self.num_slots = num_positions, num_slots
        self.num_rows = num_positions * num_slots
        self.num_frames = num_frames
        flag = np.dtype(bool)
        self.layout: Layout = {
            "actions": (tuple(action_shape), action_dtype),
            "rewards": ((), np.dtype(np.float32)),
            "terminated": ((), flag),
            "truncated": ((), flag),
            "valid": ((), flag),
            "is_first": ((), flag),
        }
        self.extra = ()  # columns that no rollout fills
        self.of_last: tuple[str, ...] = ()
        self._layout, self._storage, self._state_layout = layout, storage, states
        self.clear()

    def clear(self) -> None:
        """Forget all rows, and give their memory back."""
        self.obs = make_observation_store(self._storage, self._layout, self.num_rows)
        kept = self._state_layout
        self.states = kept and StateStore(self.num_positions, self.num_slots, kept)
        # Large arrays of zeros take memory only where they are written.
        self.columns = {
            name: np.zeros((self.num_rows, *shape), dtype)
            for name, (shape, dtype) in self.layout.items()
        }
        self._valid = self.columns["valid"]
        self._runs_on = np.zeros(self.num_rows, bool)
        self._ended_before = np.zeros(self.num_slots, bool)
        # Where the next rollout is written unless it takes the sentinel's place, by slot.
        self._positions = np.zeros(self.num_slots, np.int64)
        self._filled = np.zeros(self.num_slots, np.int64)
        self.num_steps = self.num_added = 0

    def add_column(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, *, of_last: bool = False
    ) -> None:
        """Keep another column, 0 in new rows; `of_last`: also of last observations."""
        self.layout[name] = (tuple(shape), dtype)
        self.columns[name] = np.zeros((self.num_rows, *shape), dtype)
        self.extra += (name,)
        self.of_last += (name,) * of_last

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        columns = sum(column.nbytes for column in self.columns.values())
        states = 0 if self.states is None else self.states.nbytes
        return self.obs.nbytes + columns + self._runs_on.nbytes + states

    def oldest(self, slots: np.ndarray) -> np.ndarray:
        """Return the positions that are overwritten next, of slots `[...]`."""
        return np.where(self._filled == self.num_positions, self._positions, 0)[slots]

    # ------------------------------------------------------------------ writing

    def write(self, rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
        """Write a rollout `[T, N]`, T below the positions, and its sentinels.

        Returns:
            The rows written, `[M]`, and which of them are valid.
        """
        to = self._together(rollout) if rollout.lengths is None else None
        to = to or self._apart(rollout)
        new = {name: _with_sentinel(getattr(rollout, name)) for name in _FROM_ROLLOUT}
        # Before a seam lies a sentinel: it is not valid, nor is what was never written.
        new["is_first"] = ~np.concatenate([self._valid[to.before][None], rollout.valid])
        if self.states is not None:
            self.states.write(to.start, to.lengths, rollout)
        ends = to.start + to.lengths
        is_full = (self._filled == self.num_positions) | (ends >= self.num_positions)
        if is_full.any():
            self._ended_before = np.where(is_full, self._ended(to.last), self._ended_before)
        overwritten = 0
        for rows, times in to.places:
            overwritten += int(np.count_nonzero(self._valid[rows]))
            self.obs.write(rows, _flat(rollout.obs, times))
            for name, values in new.items():
                self.columns[name][rows] = _flat(values, times)
            for name in self.extra:
                self.columns[name][rows] = 0
        added = rollout.num_env_steps
        self.num_steps += added - overwritten
        self.num_added += added
        self._filled = np.maximum(self._filled, np.minimum(ends + 1, self.num_positions))
        self._positions = (ends + 1) % self.num_positions
        # Also of the rows before, which were the last ones until now.
        self._mark_runs(to.changed)
        written = [_flat(new["valid"], times) for _, times in to.places]
        return to.changed[-sum(map(len, written)) :], np.concatenate(written)

    def _together(self, rollout: Rollout) -> _Where | None:
        """Return where a rollout goes whose slots are at one position, in runs; None: they differ.

        That is faster, and so it is wherever agents do not wait for each other.
        """
        length, position = len(rollout.valid), int(self._positions[0])
        if (self._positions != position).any():
            return None
        follows = bool(rollout.follows.all() and self._filled[0])
        start, slots = (position - follows) % self.num_positions, self.num_slots
        before_end = min(length + 1, self.num_positions - start)
        places: list[tuple[Places, Any]] = [(self._span(start, before_end), slice(0, before_end))]
        if before_end <= length:
            rest = length + 1 - before_end
            places.append((self._span(0, rest), slice(before_end, length + 1)))
        changed = ((start - 1) * slots + np.arange((length + 2) * slots)) % self.num_rows
        before, last = self._span(start - 1, 1), self._span(start + length, 1)
        starts, lengths = np.full(slots, start), np.full(slots, length)
        return _Where(starts, lengths, before, last, places, changed)

    def _apart(self, rollout: Rollout) -> _Where:
        """Return where a rollout goes whose slots have positions of their own."""
        lengths, follows = rollout.lengths, rollout.follows & (self._filled > 0)
        if lengths is None:
            lengths = np.full(self.num_slots, len(rollout.valid))
        start = (self._positions - follows) % self.num_positions
        times = np.arange(-1, len(rollout.valid) + 1)[:, None]
        rows = (start + times) % self.num_positions * self.num_slots + np.arange(self.num_slots)
        # Of those that only wait not even a sentinel: the last successor stays.
        waits = follows & (lengths == 0)
        is_written = (times <= lengths) & ~waits
        is_new = is_written[1:]
        last = rows[lengths + 1, np.arange(self.num_slots)]
        places: list[tuple[Places, Any]] = [(rows[1:][is_new], is_new)]
        return _Where(start, lengths, rows[0], last, places, rows[is_written])

    def _span(self, position: int, length: int) -> slice:
        """Return the rows of positions that do not wrap."""
        first = position % self.num_positions * self.num_slots
        return slice(first, first + length * self.num_slots)

    def _mark_runs(self, rows: np.ndarray) -> None:
        """Mark where windows run on: a row and the next are valid, and no episode ends between."""
        done = self.columns["terminated"].take(rows) | self.columns["truncated"].take(rows)
        both = self._valid.take(rows) & self._valid.take(self.next(rows))
        self._runs_on[rows] = both & ~done

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of the rows that have been written."""
        rows = self.filled * self.num_slots
        return {
            "position": self._positions.copy(),
            "filled": self._filled.copy(),
            "num_added": self.num_added,
            "obs": self.obs.get_state(rows),
            "states": self.states and self.states.get_state(self.filled),
            "columns": {name: column[:rows].copy() for name, column in self.columns.items()},
            "ended_before": self._ended_before.copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, of a ring of the same sizes and columns."""
        self.clear()
        self.obs.set_state(state["obs"])
        if self.states is not None:
            self.states.set_state(state["states"])
        for name, column in self.columns.items():
            column[: len(state["columns"][name])] = state["columns"][name]
        self._mark_runs(np.arange(self.num_rows))
        self._positions[:], self._filled[:] = state["position"], state["filled"]
        if "ended_before" in state:  # not in older ones
            self._ended_before = np.array(state["ended_before"], bool)
        self.num_steps, self.num_added = int(self._valid.sum()), int(state["num_added"])


def _with_sentinel(column: np.ndarray) -> np.ndarray:
    """Return a column `[T, N, ...]` and a row of zeros, the sentinel's."""
    return np.concatenate([column, np.zeros((1, *column.shape[1:]), column.dtype)])


def _flat(column: np.ndarray, times: slice | np.ndarray) -> np.ndarray:
    """Return the rows at some times of `[T, N, ...]`, or where a mask `[T, N]` is, `[M, ...]`."""
    part = column[times]
    return part.reshape(-1, *column.shape[2:]) if isinstance(times, slice) else part
