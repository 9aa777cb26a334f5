"""How sure a statistic of a few runs is: stratified bootstrap intervals, and how often they hold.

The bootstrap is rliable's (Agarwal et al., 2021, section 4.1): the seeds of each task are drawn
anew, by themselves, and the interval is between percentiles of the statistic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from analysis.results.rows import ResultsError
from analysis.statistics.estimates import CUT, Floats, as_scores, interquartile_mean

COVERAGE = {3: 0.73, 5: 0.90, 10: 0.93, 20: 0.94, 50: 0.95}
"""How often a 95 % percentile interval of the IQM holds the true value, by number of seeds.

Simulated for normal returns, and checked by `tests/unit/outcomes/statistics/test_statistics.py`.
For heavy tails, skewed returns, seeds of which 10 to 40 % fail, and four tasks at once
`experiments/benchmarks/interval_coverage.py` finds 88 to 90 % at 5 seeds (87 % for four tasks), 92
to 94 % at 10, 93 to 95 % from 20 on."""

ENOUGH_SEEDS = 10
"""Below so many seeds every report says that the intervals are too narrow."""

RESAMPLES = 2_000
_METHODS = ("percentile", "t", "wider")
_BATCH_BYTES = 64e6
"""What the resamples of one batch may take."""

Statistic = Callable[[Floats], Floats]
"""From `[..., seeds, tasks]` to `[...]`, or to `[k, ...]` for k statistics at once."""


def bootstrap_interval(
    scores: npt.ArrayLike,
    statistic: Statistic,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Return the percentile interval of a statistic, or of several on the same resamples.

    Args:
        scores: `[seeds]` or `[seeds, tasks]`: each task's seeds are resampled by themselves.
        statistic: A function from `[..., seeds, tasks]` to `[...]` or `[k, ...]`.
        confidence: The level of the interval.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap: the same scores have the same interval.

    Returns:
        Lower and upper end, `[]` or `[k]`; NaN for fewer than two seeds and where a score is
        not finite.

    Raises:
        ResultsError: `confidence` or `resamples` is not allowed, or `as_scores` refuses.
    """
    from scipy.stats import bootstrap

    check_bootstrap(confidence, resamples)
    table = as_scores(scores)
    if len(table) < 2 or not np.isfinite(table).all():
        unknown = np.full(np.shape(statistic(np.zeros_like(table))), np.nan)
        return unknown, unknown.copy()

    def of_samples(*tasks: Floats, axis: int = -1) -> Floats:
        return statistic(np.stack(tasks, axis=-1))  # each [..., seeds]; scipy's axis is the last

    found = bootstrap(
        tuple(table.T),
        of_samples,
        n_resamples=resamples,
        batch=max(1, min(resamples, int(_BATCH_BYTES / (8 * table.size)))),
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def iqm_interval(
    values: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: str = "percentile",
) -> tuple[float, float]:
    """Return the interval of the IQM: the percentile bootstrap's, or one for few seeds.

    The percentile interval is too narrow for few seeds: see `COVERAGE`. That of
    `trimmed_t_interval` is not, unless the seeds fall into two groups of which one is a third or
    more of them. The wider of both on each side holds best whatever the scores.

    Args:
        values: Scores, `[seeds]`, or `[seeds, tasks]`: then each task's seeds are resampled by
            themselves (stratified).
        confidence: The level of the interval.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap: the same scores have the same interval.
        method: `"percentile"`, `"t"` or `"wider"`.

    Returns:
        Both ends; NaN for fewer than two seeds and where a score is not finite.

    Raises:
        ResultsError: `method` is none of them, or see `bootstrap_interval`.
    """
    if method not in _METHODS:
        raise ResultsError(f"method must be one of {', '.join(_METHODS)}, not {method!r}")
    if not np.size(values):
        return float("nan"), float("nan")
    if method == "t":
        return trimmed_t_interval(values, confidence=confidence)
    low, high = bootstrap_interval(
        values, interquartile_mean, confidence=confidence, resamples=resamples, seed=seed
    )
    if method == "wider":
        ends = trimmed_t_interval(values, confidence=confidence)
        return min(float(low), ends[0]), max(float(high), ends[1])
    return float(low), float(high)


def trimmed_t_interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's t interval of the IQM, which holds as often as it says from 3 seeds on.

    Tukey and McLaughlin (1963): the standard error of a trimmed mean is that of the winsorised
    scores (those cut off moved to the nearest that was kept) over the share that was kept. Of
    several tasks the variances within each are added, with Welch's degrees of freedom. For few
    seeds it is wide: so little is known.

    Args:
        values: Scores, `[seeds]` or `[seeds, tasks]`.
        confidence: The level of the interval.

    Returns:
        Both ends; NaN for fewer than two seeds and where a score is not finite.
    """
    from scipy.stats import t

    check_bootstrap(confidence, RESAMPLES)
    table = as_scores(values)
    if len(table) < 2 or not np.isfinite(table).all():
        return float("nan"), float("nan")
    seeds, tasks = table.shape
    order = np.argsort(table, axis=None, kind="stable")
    cut = int(CUT * table.size)
    kept = np.zeros(table.size, dtype=bool)
    kept[order[cut : table.size - cut]] = True
    middle = table.ravel()[kept]
    winsorised = np.clip(table, middle.min(), middle.max())
    parts = winsorised.var(axis=0, ddof=1) / seeds  # [tasks]
    center = float(interquartile_mean(table))
    if not parts.any():
        return center, center
    # A task has as many degrees of freedom as seeds of it were kept, less one.
    freedoms = np.maximum(kept.reshape(table.shape).sum(axis=0) - 1, 1)
    freedom = parts.sum() ** 2 / (parts**2 / freedoms).sum()
    error = np.sqrt(parts.sum()) / tasks / (len(middle) / table.size)
    margin = float(t.ppf((1 + confidence) / 2, freedom) * error)
    return center - margin, center + margin


def interval_label(num_seeds: int) -> str:
    """Say what an interval is, and that it is too narrow where the seeds are few."""
    few = " (too narrow)" if num_seeds < ENOUGH_SEEDS else ""
    return f"95 % interval of {num_seeds} seeds{few}"


def interval_caution(num_seeds: int) -> str:
    """Return what a report with intervals of so few seeds says; empty if they are enough."""
    if num_seeds >= ENOUGH_SEEDS:
        return ""
    if num_seeds < 2:
        return "A single seed has no interval: the spread between seeds is not known."
    few = [seeds for seeds in COVERAGE if seeds <= 2 * ENOUGH_SEEDS]
    known = ", ".join(f"{COVERAGE[seeds]:.0%} at {seeds}" for seeds in few)
    known = known.replace("%", " %")
    return (
        f"Intervals of {num_seeds} seeds are too narrow: a 95 % percentile interval of the IQM "
        f"contains the true value in only {known} seeds (simulated)."
    )


def check_bootstrap(confidence: float, resamples: int) -> None:
    """Raise `ResultsError` where either is not allowed."""
    if not 0 < confidence < 1:
        raise ResultsError(f"confidence must be between 0 and 1, not {confidence}")
    if resamples < 100:
        raise ResultsError(f"resamples must be at least 100, not {resamples}")
