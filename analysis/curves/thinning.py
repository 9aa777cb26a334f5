"""Curves with fewer points, and many curves as a few: what a picture needs of a long run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MIN_RUNNING = 3
"""Below so many running trials a quantile says nothing: early stopping leaves the best ones."""

_FULL = 0.95
"""From this share of the greatest budget on a trial counts as trained to the end."""

Curve = tuple[np.ndarray, np.ndarray]
"""Steps and values, `[points]` each."""


def thin(x: np.ndarray, y: np.ndarray, points: int = 200) -> Curve:
    """Return at most `points` points of a curve that look the same: no peak and no dip is lost.

    The curve is cut into pieces of equally many points; of each the lowest and the highest stay,
    and so do both ends.

    Args:
        x: Steps in order, `[n]`.
        y: Values, `[n]`, finite.
        points: How many at most; 4 or more.

    Raises:
        ValueError: `points` is below 4.
    """
    if points < 4:
        raise ValueError(f"points must be at least 4, not {points}")
    if len(x) <= points:
        return x, y
    pieces = np.array_split(np.arange(1, len(x) - 1), (points - 2) // 2)
    lowest = [piece[np.argmin(y[piece])] for piece in pieces]
    highest = [piece[np.argmax(y[piece])] for piece in pieces]
    kept = np.unique([0, *lowest, *highest, len(x) - 1])
    return x[kept], y[kept]


def curve_quantiles(
    curves: Sequence[Curve], quantiles: Sequence[float], *, points: int = 512
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return quantiles over curves on one grid; each curve counts only between its own ends.

    One that ends less than its last interval before the last of all has as good as the same end:
    trials report at slightly different steps. It keeps its last value up to there.

    Args:
        curves: Each with its steps in order.
        quantiles: The quantiles, each in [0, 1].
        points: How many the grid has at most; with fewer different steps these are the grid.

    Returns:
        The grid `[points]` and the values `[quantiles, points]`, where at least
        `MIN_RUNNING` curves run; None where that is nowhere.
    """
    if len(curves) < MIN_RUNNING:
        return None
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    if len(grid) > points:
        grid = np.linspace(grid[0], grid[-1], points)
    # [curves, grid], NaN where a trial had not begun or had ended.
    table = np.stack(
        [np.interp(grid, *c, left=np.nan, right=_behind(*c, grid[-1])) for c in curves]
    )
    enough = np.isfinite(table).sum(axis=0) >= MIN_RUNNING
    if not enough.any():
        return None
    return grid[enough], np.nanquantile(table[:, enough], quantiles, axis=0)


def _behind(steps: np.ndarray, values: np.ndarray, end: float) -> float:
    """Return what a curve is worth from its last step to the end of all: NaN if it ended early."""
    has_ended_with_all = len(steps) > 1 and end - steps[-1] < steps[-1] - steps[-2]
    return float(values[-1]) if has_ended_with_all else np.nan


def has_full_budget(reached: Sequence[float]) -> list[bool]:
    """Tell of each trial whether it got as far as any, or it is not known (NaN)."""
    most = max((budget for budget in reached if np.isfinite(budget)), default=0.0)
    return [not budget < _FULL * most for budget in reached]


def median_curve(
    curves: Sequence[Curve], is_full: Sequence[bool], *, points: int = 512
) -> Curve | None:
    """Return the median of the trials that got so far, until the first that was not stopped ends.

    By the clock fast trials end first: the median of the slow ones that are left is another curve.

    Args:
        curves: Each with its steps in order.
        is_full: Whether each has the full budget; see `has_full_budget`.
        points: How many it has at most.

    Returns:
        None where fewer than `MIN_RUNNING` trials ran.
    """
    found = curve_quantiles(curves, [0.5], points=points)
    if found is None:
        return None
    grid, [values] = found
    ends = [curve[0][-1] for curve, full in zip(curves, is_full, strict=True) if full]
    kept = grid <= min(ends, default=np.inf)
    return (grid[kept], values[kept]) if kept.any() else None
