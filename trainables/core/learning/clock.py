"""Counting exactly how often something is due."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Clock:
    """Says how often something is due that is due `rate` times for each unit of progress.

    Without drift: after progress P, in whatever portions, it was due floor(rate * P) times. In
    whole numbers, because this is asked after every update.

    Args:
        rate: How often for each unit.

    Example:
        >>> clock = Clock(Fraction(2, 3))
        >>> [clock.advance(1) for _ in range(6)]
        [0, 1, 1, 0, 1, 1]
    """

    def __init__(self, rate: Fraction):
        self._numerator, self._denominator = rate.numerator, rate.denominator
        self._owed = 0  # in parts of the denominator

    def advance(self, units: int) -> int:
        """Progress by some units; returns how often it is due now."""
        due, self._owed = divmod(self._owed + units * self._numerator, self._denominator)
        return due

    def get_state(self) -> list[Any]:
        """The fraction that is carried over; its two numbers as text, since they may be long."""
        return [str(self._owed), str(self._denominator)]

    def set_state(self, state: list[Any]) -> None:
        """Take over `get_state`'s, also of a clock with another rate."""
        self._owed = int(Fraction(int(state[0]), int(state[1])) * self._denominator)
