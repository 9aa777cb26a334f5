"""Observations of any space as rows of one numpy array.

An observation of a plain space is stored as it is. One of a Dict or Tuple space is a numpy record:
a structured dtype with a field for each leaf. So whatever stores, sends or pads observations
handles one array, and a leaf is a view of it, without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import PLAIN, leaf_keys, leaf_spaces


class ObservationLayout:
    """The layout of observations of a space, and of what is stored beside them, in one array.

    Args:
        space: The space of one observation.
        extras: Widths of the float32 vectors that are stored beside an observation, by name.

    Attributes:
        dtype: The type of a stored row; structured unless the space is plain and has no extras.
        shape: The shape of a stored row; () if the dtype is structured.
        leaf_spaces: The observation's leaves by path.
        has_extras: Whether something is stored beside an observation.
    """

    def __init__(self, space: gym.Space, extras: Mapping[str, int] | None = None):
        self.space = space
        self.leaf_spaces = leaf_spaces(space)
        self._keys = leaf_keys(space)
        self._extras = dict(extras or {})
        self.has_extras = bool(self._extras)
        self._float_paths = [
            path
            for path, leaf in self.leaf_spaces.items()
            if np.issubdtype(leaf.dtype, np.floating)
        ]
        self.is_plain = PLAIN in self.leaf_spaces and not self._extras
        self.dtype: np.dtype
        self.shape: tuple[int, ...]
        if self.is_plain:
            self.dtype, self.shape = np.dtype(space.dtype), tuple(space.shape or ())
            return
        fields: list[Any] = [
            (path, leaf.dtype, leaf.shape or ()) for path, leaf in self.leaf_spaces.items()
        ]
        fields += [(name, np.float32, (width,)) for name, width in self._extras.items()]
        # Aligned: PyTorch reads the fields in place.
        self.dtype, self.shape = np.dtype(fields, align=True), ()

    @property
    def nbytes(self) -> int:
        """Bytes of a stored row."""
        return self.dtype.itemsize * math.prod(self.shape)

    def zeros(self, leading: tuple[int, ...]) -> np.ndarray:
        """Return rows of zeros, `[*leading, *shape]`."""
        return np.zeros((*leading, *self.shape), self.dtype)

    def empty(self, leading: tuple[int, ...]) -> np.ndarray:
        """Return rows to be written, `[*leading, *shape]`."""
        return np.empty((*leading, *self.shape), self.dtype)

    def write(self, rows: np.ndarray, obs: Any, extras: Mapping[str, Any] | None = None) -> None:
        """Write a batch of observations as vector environments give them into rows `[N, *shape]`.

        Args:
            rows: A view of stored rows.
            obs: An array, or a tree of arrays for Dict and Tuple spaces, each `[N, ...]`.
            extras: The extras by name, each `[N, width]`; those that are not given become 0.
        """
        if self.is_plain:
            rows[...] = obs
            return
        for path, keys in self._keys.items():
            rows[path][...] = reduce(getitem, keys, obs)
        for name in self._extras:
            rows[name][...] = 0 if extras is None or name not in extras else extras[name]

    def rows(
        self, obs: Any, extras: Mapping[str, Any] | None = None, *, batched: bool = True
    ) -> np.ndarray:
        """Return a batch of observations as new rows `[N, *shape]`; see `write`.

        Args:
            obs: A batch as `write` takes it, or a list of single observations of a nested space.
            extras: The extras by name; see `write`.
            batched: False if `obs` is a single observation; the rows are then `[1, *shape]`.
        """
        if not batched:
            obs = [obs]
        if not batched or (isinstance(obs, list) and PLAIN not in self.leaf_spaces):
            obs = _stacked(self.space, obs)
        first: Any = reduce(getitem, next(iter(self._keys.values())), obs)
        rows = self.empty((len(first),))
        self.write(rows, obs, extras)
        return rows

    def leaves(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return views of stored rows `[..., *shape]`, by path and by name of the extras."""
        if self.is_plain:
            return {PLAIN: rows}
        return {name: rows[name] for name in (*self._keys, *self._extras)}

    def not_finite(self, rows: np.ndarray) -> tuple[int, str] | None:
        """Return the first row `[N, *shape]` with NaN or infinity, and its leaf; None: no row."""
        for path in self._float_paths:
            leaf = rows if self.is_plain else rows[path]
            if math.isfinite(np.vdot(leaf, leaf)):  # a tenth of the time of looking at each
                continue
            is_finite = np.isfinite(leaf).reshape(len(leaf), -1).all(1)
            if not is_finite.all():  # large numbers are finite, though their squares are not
                return int(is_finite.argmin()), path
        return None

    def to_state(self, rows: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
        """Return copies of rows in a form that checkpoints keep."""
        if self.is_plain:
            return rows.copy()
        return {name: leaf.copy() for name, leaf in self.leaves(rows).items()}

    def from_state(self, state: Any) -> np.ndarray:
        """Return the rows of `to_state`."""
        if self.is_plain:
            return np.array(state, dtype=self.dtype)
        leaves = {name: np.asarray(leaf) for name, leaf in state.items()}
        name, first = next(iter(leaves.items()))
        leading = first.shape[: first.ndim - len(self.dtype[name].shape)]
        rows = self.empty(leading)
        for name, leaf in leaves.items():
            rows[name][...] = leaf
        return rows


def _stacked(space: gym.Space, observations: list[Any]) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return {
            key: _stacked(part, [obs[key] for obs in observations])
            for key, part in space.spaces.items()
        }
    if isinstance(space, gym.spaces.Tuple):
        return tuple(
            _stacked(part, [obs[index] for obs in observations])
            for index, part in enumerate(space.spaces)
        )
    return np.stack([np.asarray(obs) for obs in observations])
