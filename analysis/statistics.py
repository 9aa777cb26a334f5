"""Statistics of a few runs: the interquartile mean and its bootstrap interval.

Means of a few runs follow their outliers and medians waste half of the runs; the interquartile mean
(IQM), the mean of the middle half, does neither (Agarwal et al., 2021, "Deep reinforcement learning
at the edge of the statistical precipice"). The numbers are those of the authors' library rliable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

COVERAGE = {3: 0.73, 5: 0.90, 10: 0.93, 20: 0.94}
"""How often a 95 % interval of the IQM holds the true value, by number of seeds: simulated for
normal returns, and checked by `tests/unit/test_statistics.py`."""

ENOUGH_SEEDS = 10
"""Below so many seeds every report says that the intervals are too narrow."""

_CUT = 0.25
_RESAMPLES = 2_000


def iqm(values: npt.ArrayLike) -> float:
    """The interquartile mean: the mean without the lowest and the highest quarter.

    Of each side ``floor(n / 4)`` values are left out: none of 3, one of 5, two of 10.

    Args:
        values: Scores of any shape, each counting alike; e.g. ``[seeds]`` or ``[seeds, tasks]``.

    Returns:
        NaN if any of them is not finite: a seed that diverged is not to be trimmed away.
    """
    from scipy.stats import trim_mean

    scores = np.asarray(values, dtype=float)
    if not np.isfinite(scores).all():
        return float("nan")
    return float(trim_mean(scores, _CUT, axis=None))


def iqm_interval(
    values: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of the IQM.

    Too narrow for few seeds: see `COVERAGE`.

    Args:
        values: Scores, ``[seeds]``, or ``[seeds, tasks]``: then each task's seeds are resampled by
            themselves (stratified).
        confidence: Of the interval.
        resamples: Of the bootstrap.
        seed: Of the bootstrap: the same scores have the same interval.

    Returns:
        Both ends; NaN for fewer than two seeds and where a score is not finite.
    """
    from scipy.stats import bootstrap, trim_mean

    scores = np.asarray(values, dtype=float)
    if len(scores) < 2 or not np.isfinite(scores).all():
        return float("nan"), float("nan")
    tasks = scores.reshape(len(scores), -1).T  # [tasks, seeds]

    def statistic(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
        means: np.ndarray = trim_mean(np.concatenate(samples, axis=axis), _CUT, axis=axis)
        return means

    found = bootstrap(
        tuple(tasks),
        statistic,
        n_resamples=resamples,
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def median_index(values: Sequence[float]) -> int:
    """Which of the values is the median; the lower of the two middle ones of an even number.

    Of equal values the first; values that are not finite count as the lowest.
    """
    scores = np.asarray(values, dtype=float)
    order = np.argsort(np.where(np.isfinite(scores), scores, -np.inf), kind="stable")
    return int(order[(len(order) - 1) // 2])


def interval_caution(num_seeds: int) -> str:
    """What a report with intervals of so few seeds says; empty if they are enough."""
    if num_seeds >= ENOUGH_SEEDS:
        return ""
    known = ", ".join(f"{cover:.0%} at {seeds}" for seeds, cover in COVERAGE.items())
    known = known.replace("%", " %")
    return (
        f"Intervals of {num_seeds} seeds are too narrow: a 95 % percentile interval of the IQM "
        f"holds the true value in only {known} seeds (simulated)."
    )
