"""Where a replay buffer keeps recurrent states: one for so many rows of a slot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainables.core.data.batch import Rollout


class StateLayout(NamedTuple):
    """What recurrent states a buffer keeps.

    Attributes:
        stride: Rows from one kept state to the next.
        fields: Shape and dtype of one slot's state, by name.
    """

    stride: int
    fields: dict[str, tuple[tuple[int, ...], np.dtype]]


class StateStore:
    """The states before the positions 0, stride, 2 stride, … of all slots, as they were in acting.

    Args:
        num_positions: Rows of each slot, a multiple of the stride.
        num_slots: Slots.
        layout: What is kept.
    """

    def __init__(self, num_positions: int, num_slots: int, layout: StateLayout):
        self.stride, self._num_slots = layout.stride, num_slots
        self._num_positions = num_positions
        self._states = {
            name: np.zeros((num_positions // self.stride, num_slots, *shape), dtype)
            for name, (shape, dtype) in layout.fields.items()
        }

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return sum(states.nbytes for states in self._states.values())

    def write(self, start: int, rollout: Rollout) -> None:
        """Keep those states of a rollout `[T, N]`, written from `start` on, that are due.

        The sentinel's is zeros: it is written anew, or the row after it begins an episode.
        """
        if rollout.states is None or rollout.state_stride != 1:
            raise ValueError("a replay buffer for memories needs the state before every row")
        length = len(rollout.rewards)
        times = np.arange(-start % self.stride, length + 1, self.stride)
        places = (start + times) % self._num_positions // self.stride
        inside = times < length
        for name, states in self._states.items():
            states[places[inside]] = rollout.states[name][times[inside]]
            states[places[~inside]] = 0

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """New arrays of the states before rows `[B]`, at positions that have one, `[B, …]`."""
        positions, slots = np.divmod(rows, self._num_slots)
        return {
            name: states[positions // self.stride, slots] for name, states in self._states.items()
        }

    def get_state(self, num_positions: int) -> dict[str, Any]:
        """Return a copy of what is kept of the first positions."""
        kept = -(-num_positions // self.stride)
        return {name: states[:kept].copy() for name, states in self._states.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        for name, states in self._states.items():
            states[: len(state[name])] = state[name]
