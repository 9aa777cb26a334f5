"""Where a replay buffer keeps its observations and recurrent states."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError

Places = slice | np.ndarray
"""Rows to write: a run of them, or their ids `[M]`."""


class ObservationStore(Protocol):
    """Observations by row, as their layout has them."""

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""

    def write(self, rows: Places, obs: np.ndarray) -> None:
        """Keep `obs [M, *shape]` in so many rows."""

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return a new array of the rows `ids [M]`: `[M, *shape]` in the layout's own dtype."""

    def get_state(self, num_rows: int) -> dict[str, Any]:
        """Return a copy of the first `num_rows` rows, as they are stored."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""


def make_observation_store(
    storage: str, layout: ObservationLayout, num_rows: int
) -> ObservationStore:
    """Return the store of a `storage` setting.

    Args:
        storage: native, uint8 or compressed.
        layout: How observations are stored.
        num_rows: How many are kept.

    Raises:
        ConfigError: if the observations cannot be stored so.
    """
    if storage == "compressed":
        return CompressedStore(layout, num_rows)
    if storage == "native" or layout.dtype == np.uint8:
        return NativeStore(layout, num_rows)
    if layout.is_plain:
        return QuantizedStore(layout.space, num_rows)
    return LeafStores(layout, num_rows)


class NativeStore:
    """Observations in their own dtype. Memory is taken from the system as rows are filled."""

    def __init__(self, layout: ObservationLayout, num_rows: int):
        self._layout = layout
        self._rows = layout.empty((num_rows,))

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(self, rows: Places, obs: np.ndarray) -> None:
        self._rows[rows] = obs

    def read(self, ids: np.ndarray) -> np.ndarray:
        return self._rows.take(ids, axis=0)

    def get_state(self, num_rows: int) -> dict[str, Any]:
        return {"rows": self._layout.to_state(self._rows[:num_rows])}

    def set_state(self, state: dict[str, Any]) -> None:
        rows = self._layout.from_state(state["rows"])
        self._rows[: len(rows)] = rows


class LeafStores:
    """Each leaf by itself: floats with finite bounds in 256 levels, all others as they are.

    Raises:
        ConfigError: if no leaf is of bytes in the end.
    """

    def __init__(self, layout: ObservationLayout, num_rows: int):
        self._layout = layout
        self._stores: dict[str, ObservationStore] = {}
        for name in layout.dtype.names or ():
            leaf = layout.leaf_spaces.get(name)
            if leaf is None:  # stored beside the observation
                leaf = gym.spaces.Box(-np.inf, np.inf, layout.dtype[name].shape)
            if _levels(leaf) is not None:
                self._stores[name] = QuantizedStore(leaf, num_rows)
            else:
                self._stores[name] = NativeStore(ObservationLayout(leaf), num_rows)
        if not any(
            isinstance(self._stores[path], QuantizedStore) or leaf.dtype == np.uint8
            for path, leaf in layout.leaf_spaces.items()
        ):
            raise _cannot_quantize(layout.space, "floats with finite bounds, or uint8")

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self._stores.values())

    def write(self, rows: Places, obs: np.ndarray) -> None:
        for name, store in self._stores.items():
            store.write(rows, obs[name])

    def read(self, ids: np.ndarray) -> np.ndarray:
        rows = self._layout.empty(ids.shape)
        for name, store in self._stores.items():
            rows[name][...] = store.read(ids)
        return rows

    def get_state(self, num_rows: int) -> dict[str, Any]:
        return {name: store.get_state(num_rows) for name, store in self._stores.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        for name, store in self._stores.items():
            store.set_state(state[name])


class QuantizedStore:
    """Floats of a bounded Box in 256 linear levels from `low` to `high`: a quarter of float32.

    Raises:
        ConfigError: if the space is no Box of floats with finite bounds.
    """

    def __init__(self, space: gym.Space, num_rows: int):
        step = _levels(space)
        if step is None or not isinstance(space, gym.spaces.Box):
            raise _cannot_quantize(space, "floats with finite bounds, or uint8")
        self._low, self._step = space.low, step
        self._levels_per_unit = np.divide(1, step, out=np.zeros_like(step), where=step > 0)
        self._rows = np.empty((num_rows, *space.shape), np.uint8)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(self, rows: Places, obs: np.ndarray) -> None:
        levels = (obs - self._low) * self._levels_per_unit
        np.rint(levels, out=levels)
        np.clip(levels, 0, 255, out=levels)
        self._rows[rows] = levels

    def read(self, ids: np.ndarray) -> np.ndarray:
        return self._rows.take(ids, axis=0) * self._step + self._low

    def get_state(self, num_rows: int) -> dict[str, Any]:
        return {"rows": self._rows[:num_rows].copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._rows[: len(state["rows"])] = state["rows"]


def _levels(space: gym.Space) -> np.ndarray | None:
    """Return the step between 256 levels, None if a space is no Box of floats with bounds."""
    if not (isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)):
        return None
    with np.errstate(over="ignore"):
        step = (space.high - space.low) / 255
    return step if np.isfinite(step).all() else None


def _cannot_quantize(space: gym.Space, needed: str) -> ConfigError:
    return ConfigError(
        f"replay_buffer_config: storage = 'uint8' needs a Box of {needed}, not {space}; use "
        "storage='native' or 'compressed'"
    )


class CompressedStore:
    """Each observation compressed by LZ4, without loss; a loop over rows, as codecs have it."""

    def __init__(self, layout: ObservationLayout, num_rows: int):
        from pyarrow import Codec  # slow to import, and only this store needs it

        self._codec = Codec("lz4")
        self._layout = layout
        self._size = layout.nbytes
        self._rows: list[bytes] = [b""] * num_rows
        self._nbytes = sys.getsizeof(self._rows)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def write(self, rows: Places, obs: np.ndarray) -> None:
        whole = self._layout.zeros((len(obs),))  # also between the fields of a record
        for name, leaf in self._layout.leaves(whole).items():
            leaf[...] = obs if self._layout.is_plain else obs[name]
        as_bytes = whole.reshape(len(obs), -1).view(np.uint8)
        ids = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        self._replace(ids, (self._codec.compress(row, asbytes=True) for row in as_bytes))

    def _replace(self, ids: Iterable[int], rows: Iterator[bytes]) -> None:
        for i, row in zip(ids, rows, strict=False):
            if self._rows[i]:
                self._nbytes -= sys.getsizeof(self._rows[i])
            self._nbytes += sys.getsizeof(row)
            self._rows[i] = row

    def read(self, ids: np.ndarray) -> np.ndarray:
        obs = np.empty((ids.size, self._size), np.uint8)
        for out, i in zip(obs, ids.reshape(-1).tolist(), strict=True):
            out[:] = np.frombuffer(self._codec.decompress(self._rows[i], self._size), np.uint8)
        return obs.view(self._layout.dtype).reshape(*ids.shape, *self._layout.shape)

    def get_state(self, num_rows: int) -> dict[str, Any]:
        rows = self._rows[:num_rows]
        return {
            "bytes": np.frombuffer(bytearray(b"".join(rows)), np.uint8),
            "lengths": np.array([len(row) for row in rows], np.int64),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        data, ends = state["bytes"].tobytes(), state["lengths"].cumsum().tolist()
        starts = [0, *ends]
        self._replace(count(), (data[a:b] for a, b in zip(starts, ends, strict=False)))


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
        num_slots: Number of slots.
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

    def write(self, start: np.ndarray, lengths: np.ndarray, rollout: Rollout) -> None:
        """Keep those states of a rollout `[T, N]` that are due.

        The sentinels' are zeros: they are written anew, or the row after them begins an episode.

        Args:
            start: The positions of its columns' first rows, `[N]`.
            lengths: The rows of its columns, `[N]`.
            rollout: The rollout.
        """
        if rollout.states is None or rollout.state_stride != 1:
            raise ValueError("a replay buffer for memories needs the state before every row")
        times = np.arange(len(rollout.rewards) + 1)[:, None]
        positions = (start + times) % self._num_positions
        is_due = positions % self.stride == 0
        inside, sentinel = (np.nonzero(is_due & at) for at in (times < lengths, times == lengths))
        for name, states in self._states.items():
            states[positions[inside] // self.stride, inside[1]] = rollout.states[name][inside]
            states[positions[sentinel] // self.stride, sentinel[1]] = 0

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return new arrays of the states before rows `[B]`, at positions with one, `[B, …]`."""
        positions, slots = np.divmod(rows, self._num_slots)
        return {
            name: states[positions // self.stride, slots] for name, states in self._states.items()
        }

    def replace(self, rows: np.ndarray, states: Mapping[str, np.ndarray]) -> None:
        """Keep other states before rows `[B]`, at positions with one, `[B, …]` by name."""
        positions, slots = np.divmod(rows, self._num_slots)
        for name, values in states.items():
            self._states[name][positions // self.stride, slots] = values

    def get_state(self, num_positions: int) -> dict[str, Any]:
        """Return a copy of what is kept of the first positions."""
        kept = -(-num_positions // self.stride)
        return {name: states[:kept].copy() for name, states in self._states.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        for name, states in self._states.items():
            states[: len(state[name])] = state[name]
