"""Performance profiles: the share of runs that score more than a threshold, at every threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.results.rows import ResultsError
from analysis.statistics.aggregates import same_tasks
from analysis.statistics.estimates import Floats, task_means
from analysis.statistics.intervals import RESAMPLES, bootstrap_interval

_POINTS = 101


def performance_profile(
    scores: Mapping[str, npt.ArrayLike],
    thresholds: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of all runs on all tasks that score more than each threshold.

    Agarwal et al. (2021), section 4.2. The curve that is higher everywhere is better everywhere
    (stochastic dominance); where it crosses 0.5 is the median run, the area under it the mean.

    Args:
        scores: The scores by algorithm, `[seeds, tasks]`, or `[seeds]` of one task: `normalise`.
        thresholds: The thresholds (tau); by default 101 from the lowest to the highest score.
        confidence: The level of the band at each threshold (stratified percentile bootstrap).
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        A row per algorithm and threshold: `algorithm`, `threshold`, `fraction`, `low`,
        `high`; NaN where a score is not finite, the band also for a single seed. `attrs` holds
        `confidence` and `resamples`.

    Raises:
        ResultsError: Scores are no `[seeds, tasks]`, their numbers of tasks differ, or the
            thresholds are no finite numbers.
    """
    return _profile(scores, thresholds, _pooled, confidence, resamples, seed)


def average_score_distribution(
    scores: Mapping[str, npt.ArrayLike],
    thresholds: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of tasks whose mean over seeds is more than a threshold.

    The profile that was common before the score distribution: it hides how runs vary, is a coarse
    staircase for few tasks, and its bands are wider (Agarwal et al., 2021, appendix A.4).

    Args:
        scores: See `performance_profile`.
        thresholds: See `performance_profile`.
        confidence: The level of the band at each threshold.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        The columns of `performance_profile`.

    Raises:
        ResultsError: See `performance_profile`.
    """
    return _profile(scores, thresholds, task_means, confidence, resamples, seed)


def _pooled(scores: Floats) -> Floats:
    """Turn `[..., seeds, tasks]` into `[..., seeds * tasks]`."""
    return scores.reshape(*scores.shape[:-2], -1)


def _profile(
    scores: Mapping[str, npt.ArrayLike],
    thresholds: npt.ArrayLike | None,
    items: Callable[[Floats], Floats],
    confidence: float,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """Return the profile of what `items` makes of scores: `[..., seeds, tasks]` -> `[..., n]`."""
    tables = same_tasks(scores)
    taus = _thresholds(tables, thresholds)

    def fractions(values: Floats) -> Floats:
        scored = items(values)
        return np.stack([(scored > tau).mean(axis=-1) for tau in taus])

    frames = []
    for name, table in tables.items():
        low, high = bootstrap_interval(
            table, fractions, confidence=confidence, resamples=resamples, seed=seed
        )
        known = np.isfinite(table).all()
        shares = fractions(table) if known else np.full(len(taus), np.nan)
        columns = {"threshold": taus, "fraction": shares, "low": low, "high": high}
        frames.append(pd.DataFrame({"algorithm": name, **columns}))
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs.update(confidence=confidence, resamples=resamples)
    return frame


def _thresholds(tables: dict[str, Floats], thresholds: npt.ArrayLike | None) -> Floats:
    if thresholds is None:
        known = np.concatenate([table[np.isfinite(table)] for table in tables.values()])
        if not known.size:
            raise ResultsError("no score is finite")
        return np.linspace(known.min(), known.max(), _POINTS)
    taus = np.atleast_1d(np.asarray(thresholds, dtype=float))
    if taus.ndim != 1 or not taus.size or not np.isfinite(taus).all():
        raise ResultsError(f"thresholds must be finite numbers, one or more, not {thresholds!r}")
    return taus
