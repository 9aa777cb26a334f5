"""What follows from the progress of training: scheduled values, and how often something is due."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np


def scheduled(value: float | list[Any], num_env_steps: int) -> float:
    """Return a setting's value after so many environment steps.

    Args:
        value: A constant, or `[[0, v0], [t1, v1], …]`, interpolated linearly and constant after the
            end.
        num_env_steps: Environment steps since training began.

    Example:
        >>> scheduled([[0, 1e-3], [100_000, 1e-5]], 100_000)
        1e-05
    """
    if not isinstance(value, list):
        return float(value)
    steps, values = zip(*value, strict=True)
    return float(np.interp(num_env_steps, steps, values))


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
        """Return the fraction carried over: its two numbers as text, since they may be long."""
        return [str(self._owed), str(self._denominator)]

    def set_state(self, state: list[Any]) -> None:
        """Take over `get_state`'s, also of a clock with another rate."""
        self._owed = int(Fraction(int(state[0]), int(state[1])) * self._denominator)
