"""Piecewise-linear schedules of a setting over environment steps."""

from __future__ import annotations

import numpy as np


class Schedule:
    """A constant, or `[[0, v0], [t1, v1], …]` interpolated linearly and constant after the end.

    Example:
        >>> Schedule([[0, 1e-3], [100_000, 1e-5]])(100_000)
        1e-05
    """

    def __init__(self, value: float | list[list[float]]):
        if isinstance(value, list):
            self._steps, self._values = zip(*value, strict=True)
        else:
            self._steps, self._values = (0,), (value,)

    def __call__(self, num_env_steps: int) -> float:
        """The value after `num_env_steps` environment steps of training."""
        if len(self._values) == 1:
            return float(self._values[0])
        return float(np.interp(num_env_steps, self._steps, self._values))
