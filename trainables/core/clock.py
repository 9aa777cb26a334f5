"""Counting exactly how often something is due."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Clock:
    """Says how often something is due, `rate` times for each unit of progress, without drift.

    What is not yet due is carried over, as a fraction: after progress P, in whatever portions, it
    was due exactly floor(rate * P) times.

    Example:
        >>> clock = Clock()
        >>> [clock.advance(Fraction(2, 3)) for _ in range(6)]
        [0, 1, 1, 0, 1, 1]
    """

    def __init__(self) -> None:
        self._owed = Fraction(0)

    def advance(self, amount: Fraction) -> int:
        """Progress by `amount`, rate included; returns how often it is due now."""
        self._owed += amount
        due = int(self._owed)
        self._owed -= due
        return due

    def get_state(self) -> list[Any]:
        """The fraction carried over, its two numbers as text."""
        return [str(self._owed.numerator), str(self._owed.denominator)]

    def set_state(self, state: list[Any]) -> None:
        """Take over `get_state`'s."""
        self._owed = Fraction(int(state[0]), int(state[1]))


def exact(number: float) -> Fraction:
    """A number as people write it: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(str(number))
