"""Rows of experience in columns, and what is read of them: successors, windows, sequences.

All slots share the rows, time-major: position p of slot n is row `p * num_slots + n`. So the row
that follows in time is `num_slots` further on, and every column is one array over rows.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class ReadableObservations(Protocol):
    """Observations by row."""

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return a new array of the rows `ids [...]`: `[..., *shape]` in the layout's dtype."""


class ReadableStates(Protocol):
    """The recurrent states before some rows.

    Attributes:
        stride: Positions from one state to the next.
    """

    stride: int

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return new arrays of the states before rows `[B]`, at positions with one, `[B, …]`."""


class Rows:
    """Part of a ring, and of a data set: rows that windows and sequences are read from.

    The next row of a valid one has its successor's observation. Behind the newest valid row of a
    slot, and where two fragments meet that do not follow each other, lies a row that is not valid.

    Attributes:
        columns: Everything but observations by name, `[num_rows, ...]`. `is_first` marks the first
            row of an episode, and of a fragment that follows nothing.
        obs: The observations, by row.
        states: The recurrent states, or None.
        extra: Columns that are drawn beside those that all rows have.
        num_positions: Rows of each slot.
        num_slots: Slots.
        num_rows: num_positions * num_slots.
        num_frames: Observations that are read as one.
        num_steps: Valid rows now.
    """

    columns: dict[str, np.ndarray]
    obs: ReadableObservations
    states: ReadableStates | None
    extra: tuple[str, ...]
    num_positions: int
    num_slots: int
    num_rows: int
    num_frames: int
    num_steps: int
    _filled: np.ndarray  # positions that have been written, by slot
    _valid: np.ndarray  # the column
    _runs_on: np.ndarray  # where windows run on: this row and the next are of one episode
    _ended_before: np.ndarray  # by slot, whether an episode ended in the row before the oldest

    def oldest(self, slots: np.ndarray) -> np.ndarray | int:
        """Return the positions that were written first, of slots `[...]`."""
        return 0

    @property
    def filled(self) -> int:
        """Positions that have been written, of the slot with most."""
        return int(self._filled.max())

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return a new array of a column's values in rows `[...]`, as they are learned from."""
        return self.columns[name].take(rows, axis=0)

    def next(self, rows: np.ndarray, steps: int | np.ndarray = 1) -> np.ndarray:
        """Return the rows that follow in time, `steps` later."""
        return (rows + steps * self.num_slots) % self.num_rows

    def is_last(self, rows: np.ndarray) -> np.ndarray:
        """Return which rows hold the last observation of an episode.

        Nobody acted there, so they are not valid. What an environment showed last that was replaced
        amid an episode is no such observation.
        """
        ended = self._ended(self.next(rows, -1))
        positions, slots = np.divmod(rows, self.num_slots)
        ended |= (positions == self.oldest(slots)) & self._ended_before[slots]
        return ended & ~self._valid[rows]

    def observations(self, rows: np.ndarray) -> np.ndarray:
        """Return observations of rows `[...]`; with frame stacking the last k, `[..., k, *shape]`.

        Zeros where an episode, a fragment that follows nothing, or what is stored yet begins.
        """
        if self.num_frames == 1:
            return self.obs.read(rows)
        lags = np.arange(self.num_frames - 1, -1, -1)
        window = self.next(rows[..., None], -lags)
        # Oldest first: a frame is seen if no later one is an episode's first, and it is older.
        begins = self.columns["is_first"].take(window[..., :0:-1])
        positions, slots = np.divmod(rows, self.num_slots)
        age = (positions - self.oldest(slots)) % self.num_positions
        unseen = lags > age[..., None]
        unseen[..., :-1] |= np.logical_or.accumulate(begins, axis=-1)[..., ::-1]
        window[unseen] = 0  # any row that has been written
        frames = self.obs.read(window)
        frames[unseen] = 0
        return frames

    def windows(
        self, rows: np.ndarray, steps: int | np.ndarray, powers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return n-step windows, which end early with an episode, at a seam and at the newest row.

        Args:
            rows: First rows, valid ones, `[M]`.
            steps: Lengths asked for, one or `[M]`.
            powers: gamma^k for each k below the greatest length, `[K]`.

        Returns:
            Last rows, real lengths and discounted sums of rewards, each `[M]`.
        """
        offsets = np.arange(len(powers))[:, None]
        window = self.next(rows, offsets)
        inside = np.ones(window.shape, bool)
        np.logical_and(self._runs_on.take(window[:-1]), offsets[1:] < steps, out=inside[1:])
        np.logical_and.accumulate(inside, axis=0, out=inside)
        lengths = inside.sum(axis=0)
        rewards = np.where(inside, self.read("rewards", window), 0)
        return self.next(rows, lengths - 1), lengths, (rewards * powers[:, None]).sum(axis=0)

    def sequence_starts(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where runs of `length` rows and one more may begin: at positions with a state.

        Returns:
            The oldest such position of each slot, and their numbers, `[N]` both; the others follow
            by the states' stride.
        """
        stride = 1 if self.states is None else self.states.stride
        oldest = self.oldest(np.arange(self.num_slots))
        skipped = -oldest % stride
        counts = np.maximum(0, -(-(self._filled - length - skipped) // stride))
        return np.broadcast_to(oldest + skipped, counts.shape), counts

    def _ended(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return where the action of a row ended its episode."""
        columns = self.columns
        return self._valid[rows] & (columns["terminated"][rows] | columns["truncated"][rows])
