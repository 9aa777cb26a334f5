"""`EpisodeMetrics`: the numbers that an episode gathers for results."""

from __future__ import annotations

import math
from collections import UserDict
from numbers import Real
from typing import Any

from trainables.core.errors import ConfigError


def checked_number(name: Any, value: Any) -> float:
    """Return the value of a metric.

    Raises:
        ConfigError: naming the metric, if that is no finite number.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"custom metric {name!r}: a metric's name is a text")
    # A size-1 array or tensor is no Real, and what it means is for the user to say.
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigError(f"custom metric {name!r} = {value!r} is no finite number")
    return float(value)


class EpisodeMetrics(UserDict[str, float]):
    """`Episode.custom_metrics`: takes finite numbers only."""

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name] = checked_number(name, value)
