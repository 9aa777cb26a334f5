"""Actors that do as they are told, in a module that Ray's workers can import."""

from __future__ import annotations

import os
import time


class Unbuildable(Exception):
    """What a constructor raises."""


class Worker:
    """Does as it is told, and dies if it is told so."""

    def build(self, index: int, num_restarts: int, refuses: int = 0) -> None:
        if index == refuses:
            raise Unbuildable(f"there is no number {index}")
        self.index, self.num_restarts = index, num_restarts

    def who(self) -> tuple[int, int]:
        return self.index, self.num_restarts

    def pid(self) -> int:
        return os.getpid()

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def add(self, a: int, b: int) -> int:
        return a + b

    def sleep(self, seconds: float) -> int:
        time.sleep(seconds)
        return self.index

    def spin(self) -> None:
        while True:
            pass

    def raise_value_error(self) -> None:
        raise ValueError("seven is not prime enough")

    def pair(self, size: int) -> tuple[int, list[int]]:
        return self.index, list(range(size))
