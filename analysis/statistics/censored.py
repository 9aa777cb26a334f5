"""Budgets that some runs did not need to spend: summaries that allow for those who never arrived.

A run that ends before it reaches the threshold is censored: all that is known is that it needs
more. Leaving it out, or counting its end, would favour algorithms that fail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.results.rows import ResultsError

_RESAMPLES = 1_000
_ROUNDING = 1e-9
"""The curve is a product: where exactly half of the runs remain it may be a little above a half."""


@dataclass(frozen=True)
class Reached:
    """How many runs reached a threshold, and at which budget.

    Attributes:
        runs: How many there are.
        reached: How many of them reached it (within the horizon, if one was given).
        horizon: The budget up to which the mean counts.
        median: The Kaplan-Meier median; infinity where fewer than half of the runs got there.
        median_low, median_high: Its percentile bootstrap interval over runs.
        mean: The restricted mean: the mean budget spent until the threshold or the horizon,
            whichever is first.
        mean_low, mean_high: Its percentile bootstrap interval over runs.
    """

    runs: int
    reached: int
    horizon: float
    median: float
    median_low: float
    median_high: float
    mean: float
    mean_low: float
    mean_high: float

    @property
    def fraction(self) -> float:
        """The part of the runs that reached it."""
        return self.reached / self.runs


def reached_summary(
    budgets: npt.ArrayLike,
    ends: npt.ArrayLike,
    *,
    horizon: float | None = None,
    failed: npt.ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Reached:
    """Sum up at which budgets runs reached a threshold, those that never did among them.

    Args:
        budgets: `[runs]`: where each reached it; infinity if it did not.
        ends: `[runs]`: the budget at which each ended.
        horizon: What happened later does not count. By default it is of the mean only: the
            largest budget that all runs had which did not fail, so that the mean needs no
            assumption about those that ended early.
        failed: `[runs]`: which failed. One that had not reached the threshold never does,
            whatever the others' budget; where it ended says nothing of theirs, and may be NaN.
        confidence: The level of the intervals.
        resamples: How many samples the bootstrap draws, which are of runs.
        seed: The seed of the bootstrap.

    Returns:
        The intervals are NaN for a single run. They are too narrow for few runs, as all percentile
        intervals.

    Raises:
        ResultsError: There are no runs, or a budget lies behind its run's end.
    """
    at, end = np.asarray(budgets, dtype=float), np.asarray(ends, dtype=float)
    if not len(at) or at.shape != end.shape:
        raise ResultsError(f"budgets and ends must be of one length, not {at.shape}, {end.shape}")
    lost = np.zeros(len(at), dtype=bool) if failed is None else np.asarray(failed, dtype=bool)
    if lost.any() and not lost.all():
        end = np.where(lost, np.fmax(end, end[~lost].max()), end)
    if not np.isfinite(end).all() or (at[np.isfinite(at)] > end[np.isfinite(at)]).any():
        raise ResultsError("every run needs a finite end, not before it reached the threshold")
    until = float(end.min()) if horizon is None else float(horizon)
    last = end if horizon is None else np.minimum(end, until)
    observed = at <= last
    times = np.where(observed, at, last)
    median, mean = _median_and_mean(times, observed, until)
    lows, highs = (np.array([np.nan] * 2),) * 2
    if len(at) > 1:
        rows = np.random.default_rng(seed).integers(len(at), size=(resamples, len(at)))
        drawn = np.array([_median_and_mean(times[r], observed[r], until) for r in rows])
        # Medians may be infinite: order statistics, no interpolation between them.
        ends_of = [(1 - confidence) / 2, (1 + confidence) / 2]
        lows, highs = np.quantile(drawn, ends_of, axis=0, method="inverted_cdf")
    return Reached(
        len(at), int(observed.sum()), until,
        median, float(lows[0]), float(highs[0]),
        mean, float(lows[1]), float(highs[1]),
    )  # fmt: skip


def _median_and_mean(times: np.ndarray, observed: np.ndarray, until: float) -> tuple[float, float]:
    """Return the median and the restricted mean of the Kaplan-Meier curve, by scipy's estimator."""
    from scipy.stats import CensoredData, ecdf

    survival = ecdf(CensoredData(uncensored=times[observed], right=times[~observed])).sf
    below = np.flatnonzero(survival.probabilities <= 0.5 + _ROUNDING)
    median = float(survival.quantiles[below[0]]) if len(below) else float("inf")
    inside = survival.quantiles < until
    edges = np.concatenate([[0.0], survival.quantiles[inside], [until]])
    heights = np.concatenate([[1.0], survival.probabilities[inside]])
    return median, float(heights @ np.diff(edges))
