"""Single values of a space into rows of a batch and out of them, batched as gymnasium does.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Write = Callable[[int, Any], None]
Read = Callable[[int], Any]


class RowError(ValueError):
    """A value does not fit its space: what is wrong, and where in the value."""


def row_writer(space: gym.Space, batch: Any, path: str = "") -> Write:
    """Return a function that writes a value of a space into a row of a batch, in place.

    As gymnasium's `concatenate`, it casts numbers where numpy calls that "same_kind".

    Args:
        space: The space of a value.
        batch: `gymnasium.vector.utils.create_empty_array(space, R)`.
        path: Where in the whole space it is, for errors.

    Returns:
        A function of the row and the value. It raises `RowError`.
    """
    if isinstance(space, spaces.Dict):
        parts = {k: row_writer(s, batch[k], f"{path}[{k!r}]") for k, s in space.spaces.items()}
        return _dict_writer(parts, path)
    if isinstance(space, spaces.Tuple):
        pairs = enumerate(zip(space.spaces, batch, strict=True))
        return _tuple_writer([row_writer(s, b, f"{path}[{i}]") for i, (s, b) in pairs], path)
    return _leaf_writer(batch, path)


def row_reader(space: gym.Space, batch: Any) -> Read:
    """Return a function of a row that returns its value, as gymnasium's `iterate` yields it.

    Args:
        space: The space of a value.
        batch: A batch of values.
    """
    if isinstance(space, spaces.Dict):
        items = {key: row_reader(part, batch[key]) for key, part in space.spaces.items()}
        return lambda row: {key: read(row) for key, read in items.items()}
    if isinstance(space, spaces.Tuple):
        parts = [row_reader(part, batch[i]) for i, part in enumerate(space.spaces)]
        return lambda row: tuple(read(row) for read in parts)
    read_row: Read = batch.__getitem__
    return read_row


def arrays_of(space: gym.Space, batch: Any) -> list[np.ndarray]:
    """Return the arrays that a batch of a space consists of."""
    if isinstance(space, spaces.Dict):
        return [a for key, part in space.spaces.items() for a in arrays_of(part, batch[key])]
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, batch, strict=True)
        return [array for part, inner in pairs for array in arrays_of(part, inner)]
    return [batch]


def _leaf_writer(array: np.ndarray, path: str) -> Write:
    shape, dtype = array.shape[1:], array.dtype

    def write(row: int, value: Any) -> None:
        # Most values fit as they are. One that does not would be broadcast, or cut to integers.
        if getattr(value, "dtype", None) != dtype or value.shape != shape:
            value = _fitting(value, shape, dtype, path)
        array[row] = value

    return write


def _dict_writer(parts: dict[str, Write], path: str) -> Write:
    def write(row: int, value: Any) -> None:
        if not isinstance(value, dict) or any(key not in value for key in parts):
            given = f"the keys {list(value)}" if isinstance(value, dict) else f"no keys: {value!r}"
            raise RowError(f"{path} has {given}, the space has {list(parts)}")
        for key, write_part in parts.items():
            write_part(row, value[key])

    return write


def _tuple_writer(parts: list[Write], path: str) -> Write:
    def write(row: int, value: Any) -> None:
        if not isinstance(value, (tuple, list)) or len(value) != len(parts):
            length = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
            raise RowError(
                f"{path} is a {type(value).__name__}{length}, not a tuple of {len(parts)}"
            )
        for write_part, part in zip(parts, value, strict=True):
            write_part(row, part)

    return write


def _fitting(value: Any, shape: tuple[int, ...], dtype: np.dtype, path: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise RowError(f"{path} is no array: {error}") from error
    if array.shape != shape:
        raise RowError(f"{path} has shape {array.shape}, the space has {shape}")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise RowError(f"{path} has dtype {array.dtype}, the space has {dtype}")
    return array
