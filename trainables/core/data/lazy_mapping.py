"""`LazyMapping`: values of which each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


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
