"""Where a replay buffer keeps its observations: as they are, in 256 levels, or compressed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Protocol

import gymnasium as gym
import numpy as np

from trainables.core.settings import ConfigError


class ObservationStore(Protocol):
    """Observations by row: `[num_rows, *shape]`, written in runs of rows, read anywhere."""

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""

    def write(self, start: int, obs: np.ndarray) -> None:
        """Keep `obs [M, *shape]` in the rows from `start`."""

    def read(self, ids: np.ndarray) -> np.ndarray:
        """A new array of the rows `ids [M]`: `[M, *shape]` in the space's own dtype."""

    def get_state(self, num_rows: int) -> dict[str, np.ndarray]:
        """A copy of the first `num_rows` rows, as they are stored."""

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Take over `get_state`'s."""


def make_observation_store(storage: str, space: gym.Space, num_rows: int) -> ObservationStore:
    """The store of a `storage` setting.

    Args:
        storage: native, uint8 or compressed.
        space: Of one observation.
        num_rows: How many are kept.

    Raises:
        ConfigError: if the space's observations cannot be stored so.
    """
    if storage == "compressed":
        return CompressedStore(space, num_rows)
    if storage == "uint8" and space.dtype != np.uint8:
        return QuantizedStore(space, num_rows)
    return NativeStore(space, num_rows)


class NativeStore:
    """Observations in their own dtype. Memory is taken from the system as rows are filled."""

    def __init__(self, space: gym.Space, num_rows: int):
        self._rows = np.empty((num_rows, *(space.shape or ())), space.dtype)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(self, start: int, obs: np.ndarray) -> None:
        self._rows[start : start + len(obs)] = obs

    def read(self, ids: np.ndarray) -> np.ndarray:
        return self._rows.take(ids, axis=0)

    def get_state(self, num_rows: int) -> dict[str, np.ndarray]:
        return {"rows": self._rows[:num_rows].copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._rows[: len(state["rows"])] = state["rows"]


class QuantizedStore:
    """Floats of a bounded Box in 256 linear levels from `low` to `high`: a quarter of float32.

    Raises:
        ConfigError: if the space is no Box of floats with finite bounds.
    """

    def __init__(self, space: gym.Space, num_rows: int):
        if not (isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)):
            raise _cannot_quantize(space, "floats or uint8")
        with np.errstate(over="ignore"):
            step = (space.high - space.low) / 255
        if not np.isfinite(step).all():
            raise _cannot_quantize(space, "finite bounds")
        self._low, self._step = space.low, step
        self._levels_per_unit = np.divide(1, step, out=np.zeros_like(step), where=step > 0)
        self._rows = np.empty((num_rows, *space.shape), np.uint8)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(self, start: int, obs: np.ndarray) -> None:
        levels = (obs - self._low) * self._levels_per_unit
        np.rint(levels, out=levels)
        np.clip(levels, 0, 255, out=levels)
        self._rows[start : start + len(obs)] = levels

    def read(self, ids: np.ndarray) -> np.ndarray:
        return self._rows.take(ids, axis=0) * self._step + self._low

    def get_state(self, num_rows: int) -> dict[str, np.ndarray]:
        return {"rows": self._rows[:num_rows].copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._rows[: len(state["rows"])] = state["rows"]


def _cannot_quantize(space: gym.Space, needed: str) -> ConfigError:
    return ConfigError(
        f"replay_buffer_config: storage = 'uint8' needs a Box of {needed}, not {space}; use "
        "storage='native' or 'compressed'"
    )


class CompressedStore:
    """Each observation compressed by LZ4, without loss; a loop over rows, as codecs have it."""

    def __init__(self, space: gym.Space, num_rows: int):
        from pyarrow import Codec  # type: ignore[import-untyped]  # slow to import, and only this store needs it

        self._codec = Codec("lz4")
        self._shape, self._dtype = space.shape or (), np.dtype(space.dtype)
        self._size = self._dtype.itemsize * int(np.prod(self._shape, dtype=np.int64))
        self._rows: list[bytes] = [b""] * num_rows
        self._nbytes = sys.getsizeof(self._rows)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def write(self, start: int, obs: np.ndarray) -> None:
        obs = np.ascontiguousarray(obs, self._dtype)
        self._replace(start, (self._codec.compress(row, asbytes=True) for row in obs))

    def _replace(self, start: int, rows: Iterator[bytes]) -> None:
        for i, row in enumerate(rows, start):
            if self._rows[i]:
                self._nbytes -= sys.getsizeof(self._rows[i])
            self._nbytes += sys.getsizeof(row)
            self._rows[i] = row

    def read(self, ids: np.ndarray) -> np.ndarray:
        obs = np.empty((ids.size, self._size), np.uint8)
        for out, i in zip(obs, ids.reshape(-1).tolist(), strict=True):
            out[:] = np.frombuffer(self._codec.decompress(self._rows[i], self._size), np.uint8)
        return obs.view(self._dtype).reshape(*ids.shape, *self._shape)

    def get_state(self, num_rows: int) -> dict[str, np.ndarray]:
        rows = self._rows[:num_rows]
        return {
            "bytes": np.frombuffer(bytearray(b"".join(rows)), np.uint8),
            "lengths": np.array([len(row) for row in rows], np.int64),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        data, ends = state["bytes"].tobytes(), state["lengths"].cumsum().tolist()
        starts = [0, *ends]
        self._replace(0, (data[a:b] for a, b in zip(starts, ends, strict=False)))
