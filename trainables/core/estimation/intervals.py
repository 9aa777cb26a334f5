"""Intervals of estimates, by a bootstrap over episodes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_MOST_FOR_BCA = 1000  # episodes; of more, one is left out so often that it takes long
_NUMBERS_AT_ONCE = 2**22


class Interval(NamedTuple):
    """Ends of a confidence interval; NaN where there is none."""

    low: float
    high: float


NO_INTERVAL = Interval(math.nan, math.nan)


def bootstrap_interval(
    statistic: Callable[[np.ndarray], np.ndarray],
    num_episodes: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 1000,
) -> Interval:
    """Return the interval of a statistic of episodes: BCa (Efron, 1987), which takes skewness in.

    Importance weights are skewed, and the percentile interval then lies too low. Of more than 1,000
    episodes it is the percentile interval all the same.

    Args:
        statistic: Given how often each episode counts, `[B, E]`, returns the estimates, `[B]`.
        num_episodes: E.
        rng: Draws the resamples.
        confidence: Share of intervals that hold the true value.
        num_resamples: Resamples.
    """
    if num_episodes < 2:
        return NO_INTERVAL
    point = statistic(np.ones((1, num_episodes)))[0]
    if not np.isfinite(point):
        return NO_INTERVAL
    from scipy.stats import bootstrap  # slow to import

    def resampled(drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        rows = np.atleast_2d(drawn)
        places = rows + num_episodes * np.arange(len(rows))[:, None]
        counts = np.bincount(places.ravel(), minlength=len(rows) * num_episodes)
        found = statistic(counts.reshape(len(rows), num_episodes).astype(np.float64))
        return found if drawn.ndim == 2 else found[0]

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of resamples that are all alike, which are looked at here
        found = bootstrap(
            (np.arange(num_episodes),),
            resampled,
            n_resamples=num_resamples,
            batch=max(1, _NUMBERS_AT_ONCE // num_episodes),
            vectorized=True,
            confidence_level=confidence,
            method="BCa" if num_episodes <= _MOST_FOR_BCA else "percentile",
            rng=rng,
        )
    drawn = np.asarray(found.bootstrap_distribution)
    if np.isfinite(drawn).all() and np.ptp(drawn) <= 1e-12 * max(1.0, abs(float(point))):
        return Interval(float(point), float(point))
    low, high = (float(end) for end in found.confidence_interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        known = drawn[np.isfinite(drawn)]
        if not len(known):
            return NO_INTERVAL
        ends = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(float(ends[0]), float(ends[1]))
    return Interval(low, high)


def interval_of_mean(
    values: np.ndarray,
    rng: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 1000,
) -> Interval:
    """Return the interval of the mean of values `[E]`, one an episode."""

    def mean(counts: np.ndarray) -> np.ndarray:
        found: np.ndarray = counts @ values / counts.sum(axis=1)
        return found

    return bootstrap_interval(mean, len(values), rng, confidence, num_resamples)
