"""Blocks of two programs in turns in one process, and their ratios.

Where a machine is shared, two processes one after the other differ more than their programs do;
neighbouring blocks of one process do not. Scripts import this as their neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def in_turns(
    contestants: Mapping[str, T], measure: Callable[[T], Any], pairs: int
) -> dict[str, np.ndarray]:
    """What was measured of each contestant, `[pairs, …]` by name.

    Args:
        contestants: By name. Who begins alternates, so that neither gains by its place.
        measure: Runs a block of one and returns what it took.
        pairs: Blocks of each.
    """
    measured: dict[str, list[Any]] = {name: [] for name in contestants}
    for pair in range(pairs):
        for name in sorted(contestants, reverse=pair % 2 == 1):
            measured[name].append(measure(contestants[name]))
    return {name: np.array(values) for name, values in measured.items()}


def ratio_summary(ratios: np.ndarray) -> dict[str, Any]:
    """Median and mean of ratios `[pairs]`, with the half width of the mean's 95 % interval."""
    return {
        "ratio_median": float(np.median(ratios)),
        "ratio_mean": float(ratios.mean()),
        "ratio_half_width_95": float(1.96 * ratios.std(ddof=1) / np.sqrt(len(ratios))),
        "ratios": ratios.round(3).tolist(),
    }
