"""What checkpoints hold: arrays in the place of others, and values of each module by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from trainables.core.errors import ConfigError

T = TypeVar("T")


def of_shape(own: np.ndarray, given: Any, what: str) -> np.ndarray:
    """Return a copy of a stored array, in its own type: some change theirs between reset and step.

    Raises:
        ConfigError: if its shape is not that of the one whose place it takes, or it is of
            another kind than numbers.
    """
    array = np.array(given)
    if array.shape != own.shape:
        raise ConfigError(f"{what} has shape {array.shape}, not {own.shape}")
    if array.dtype.kind not in ("b", "i", "u", "f", own.dtype.kind):
        raise ConfigError(f"{what} is of {array.dtype}, not of {own.dtype}")
    return array


def like(own: np.ndarray, given: Any, what: str) -> np.ndarray:
    """Return a copy of a stored array, of the type of the one whose place it takes.

    Raises:
        ConfigError: as `of_shape`.
    """
    return of_shape(own, given, what).astype(own.dtype)


def to_store(values: dict[str, T]) -> T | dict[str, T]:
    """Return the value of the only module itself, of several modules all values by id.

    A checkpoint of one module is so the same whether an algorithm can train several or not.
    """
    [*all_values] = values.values()
    return all_values[0] if len(all_values) == 1 else dict(values)


def from_store(stored: Any, module_ids: Iterable[str]) -> dict[str, Any]:
    """Return what `to_store` was given, by the ids of the modules."""
    ids = list(module_ids)
    return {ids[0]: stored} if len(ids) == 1 else {m: stored[m] for m in ids}


class LazyMapping(Mapping[str, T]):
    """Values by key, none of which is kept: all of them may be more than fits in memory.

    Args:
        keys: The keys, in order.
        make: Returns the value of a key.
    """

    def __init__(self, keys: Iterable[str], make: Callable[[str], T]):
        self._keys, self._make = dict.fromkeys(keys), make

    def __getitem__(self, key: str) -> T:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
