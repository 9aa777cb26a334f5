"""Learners that train together as threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from trainables.core.learning.ranks import Ranks

T = TypeVar("T")


class ThreadRanks(Ranks):
    """One of several ranks; they meet in each sum."""

    def __init__(self, rank: int, barrier: threading.Barrier, parts: list[Any]):
        self.rank, self.size = rank, len(parts)
        self._barrier, self._parts = barrier, parts
        self.num_sums = 0

    def sum(self, tensor: Tensor) -> Tensor:
        self.num_sums += 1
        total = torch.stack(self._exchange(tensor.clone())).sum(0)
        tensor.copy_(total)
        return tensor

    def gather(self, rows: Tensor) -> list[Tensor]:
        return self._exchange(rows.clone())

    def _exchange(self, mine: Tensor) -> list[Tensor]:
        self._parts[self.rank] = mine
        self._barrier.wait(60)
        parts = list(self._parts)
        self._barrier.wait(60)
        return parts


def on_ranks(count: int, function: Callable[[Ranks], T]) -> list[T]:
    """What a function gives on each of some ranks."""
    barrier, parts = threading.Barrier(count), [None] * count

    def run(rank: int) -> T:
        try:
            return function(ThreadRanks(rank, barrier, parts))
        except BaseException:
            barrier.abort()  # the others would wait for this one
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
