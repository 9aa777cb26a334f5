"""Values of recorded data as their space has them, or an error that names file, row and column."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.offline.episode import DataError

_TOLERANCE = 1e-5  # of a Box's width: files that were written as text or as other floats


@dataclass(frozen=True)
class Place:
    """Where values stand, for messages.

    Attributes:
        file: The file.
        row: The row of the first value, counted from 0 within the file.
        column: The name of the column; empty: all of the row.
        hint: What to do about a value that its space has not, to end messages with.
        per_row: Values that stand in a row.
    """

    file: str
    row: int
    column: str = ""
    hint: str = ""
    per_row: int = 1

    def error(self, problem: str, row: int = 0) -> DataError:
        """Return the error of a value that comes `row` values after the first one."""
        column = f", column {self.column!r}" if self.column else ""
        return DataError(f"{self.file}, row {self.row + row // self.per_row}{column}: {problem}")

    def of(self, column: str) -> Place:
        """Return the same place of another column."""
        return replace(self, column=column)


def fitted(
    values: np.ndarray, space: gym.Space, at: Place, *, bounded: bool = False, clip: bool = False
) -> np.ndarray:
    """Return values of a leaf as rows of its space.

    Args:
        values: Numbers of any type, `[N, *shape]`, or flat, `[N, size]`.
        space: The space of the leaf, which is no Dict or Tuple.
        at: Where they stand.
        bounded: Whether they must lie within a Box's bounds, as actions must.
        clip: Whether to clip them to the bounds instead of refusing them.

    Returns:
        Rows `[N, *shape]` of the space's type; the given array if it is so already.

    Raises:
        DataError: for a wrong shape or kind, NaN, infinity, or what the space does not have.
    """
    values = _shaped(values, space, at)
    if values.dtype.kind not in "biuf":
        raise at.error(f"values are {values.dtype}, not numbers")
    check_finite(values, at)
    cast = _cast(values, space, at)
    if isinstance(space, gym.spaces.Box):
        return _within(cast, space, at, clip=clip) if bounded else cast
    low, count = _choices(space)
    # Compared as signed integers: differences of unsigned ones wrap.
    wide = cast.astype(np.int64, copy=False)
    outside = (wide < low) | (wide >= low + count)
    if outside.any():
        row = _first(outside)
        raise at.error(f"{_shown(cast[row])} is not in {space}{at.hint}", row)
    return cast


def check_finite(values: np.ndarray, at: Place) -> None:
    """Raise the error of the first row `[N, ...]` with NaN or infinity."""
    if values.dtype.kind != "f":
        return
    bad = ~np.isfinite(values)
    if bad.any():
        row = _first(bad)
        raise at.error(f"{_shown(values[row])} is not finite; allowed: finite numbers", row)


def _shaped(values: np.ndarray, space: gym.Space, at: Place) -> np.ndarray:
    shape = space.shape or ()
    found = values.shape[1:]
    if found == shape:
        return values
    if found == (math.prod(shape),):
        return values.reshape(len(values), *shape)
    raise at.error(f"values have shape {found}, not {shape} as {_short(space)}")


def _cast(values: np.ndarray, space: gym.Space, at: Place) -> np.ndarray:
    """Return values in the space's type; what that changes by more than rounding is an error."""
    assert space.dtype is not None
    dtype = np.dtype(space.dtype)
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(dtype)
    if dtype.kind == "f":
        changed = ~np.isfinite(cast)
    elif values.dtype.kind == "b" or np.can_cast(values.dtype, dtype):
        return cast
    else:
        changed = cast.astype(values.dtype) != values
    if changed.any():
        row = _first(changed)
        raise at.error(f"{_shown(values[row])} does not fit the type {dtype} of {space}", row)
    return cast


def _within(values: np.ndarray, space: gym.spaces.Box, at: Place, *, clip: bool) -> np.ndarray:
    if clip:
        return values.clip(space.low, space.high)
    outside = (values < space.low) | (values > space.high)
    if not outside.any():
        return values
    if values.dtype.kind == "f":  # halves: the width of the widest Box is not finite
        wide = np.float64
        slack = _TOLERANCE * 2 * (space.high.astype(wide) / 2 - space.low.astype(wide) / 2)
        slack = np.where(np.isfinite(slack), slack, _TOLERANCE)
        outside = (values < space.low - slack) | (values > space.high + slack)
    if outside.any():
        row = _first(outside)
        raise at.error(f"{_shown(values[row])} is outside of {_short(space)}{at.hint}", row)
    return values.clip(space.low, space.high)


def _choices(space: gym.Space) -> tuple[Any, Any]:
    """Return the least choice and how many there are."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start), int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start.astype(np.int64), space.nvec.astype(np.int64)
    return 0, 2


def _first(bad: np.ndarray) -> int:
    """Return the first row `[N, ...]` in which something is true."""
    return int(bad.reshape(len(bad), -1).any(1).argmax())


def _shown(value: Any) -> str:
    return np.array2string(np.asarray(value), threshold=8, edgeitems=3, separator=", ")


def _short(space: gym.Space) -> str:
    """Return a space in one line."""
    return " ".join(str(space).split())
