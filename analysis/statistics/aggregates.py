"""Algorithms side by side: what each scored over seeds and tasks, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.results.rows import ResultsError
from analysis.statistics.estimates import (
    Floats,
    as_scores,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
)
from analysis.statistics.intervals import RESAMPLES, Statistic, bootstrap_interval


def aggregate(
    scores: Mapping[str, npt.ArrayLike],
    *,
    target: float | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return mean, median, interquartile mean and optimality gap of each algorithm, with intervals.

    The definitions are rliable's: mean and median over tasks of the mean over seeds; the IQM of all
    seeds of all tasks; the mean shortfall from the target. Higher is better, except of the gap.

    Args:
        scores: The scores by algorithm, `[seeds, tasks]`, or `[seeds]` of one task; the tasks are
            the same in each, the numbers of seeds may differ. Of several tasks they should be on
            one scale: `normalise`.
        target: The score that counts as optimal (gamma): 1 for normalised scores. Without it there
            is no optimality gap: of raw returns a gap to 1 means nothing.
        confidence: The level of the stratified percentile bootstrap intervals.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        A row per algorithm and statistic (`mean`, `median`, `iqm` and, with a target,
        `optimality_gap`): `algorithm`, `statistic`, `value`, `low`, `high`, `seeds`,
        `tasks`. All are NaN where a score is not finite, the interval also for a single seed.
        `attrs` holds `confidence`, `resamples` and `target`.

    Raises:
        ResultsError: Scores are no `[seeds, tasks]`, or their numbers of tasks differ.
    """
    tables = same_tasks(scores)
    statistics: dict[str, Statistic] = {"mean": mean, "median": median, "iqm": interquartile_mean}
    if target is not None:
        statistics["optimality_gap"] = partial(optimality_gap, target=target)

    def all_at_once(values: Floats) -> Floats:
        return np.stack([statistic(values) for statistic in statistics.values()])

    rows = []
    for name, table in tables.items():
        low, high = bootstrap_interval(
            table, all_at_once, confidence=confidence, resamples=resamples, seed=seed
        )
        values = all_at_once(table) if np.isfinite(table).all() else np.full(len(low), np.nan)
        for place, statistic in enumerate(statistics):
            found = (float(part[place]) for part in (values, low, high))
            rows.append((name, statistic, *found, *table.shape))
    columns = ["algorithm", "statistic", "value", "low", "high", "seeds", "tasks"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs.update(confidence=confidence, resamples=resamples, target=target)
    return frame


def aggregate_curves(
    curves: Mapping[str, npt.ArrayLike],
    budgets: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the interquartile mean at each budget, with pointwise intervals: sample efficiency.

    Every budget has the same resampled seeds, so that a band does not flicker from point to point.

    Args:
        curves: The curves by algorithm, `[seeds, tasks, budgets]`, or `[seeds, budgets]` of one
            task: the score at each budget. Budgets that a seed has not reached are NaN.
        budgets: The budgets that the curves were read off at, in env steps or seconds.
        confidence: The level of each point's stratified percentile bootstrap interval, not of all
            together.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        A row per algorithm and budget: `algorithm`, `budget`, `iqm`, `low`, `high`,
        `seeds`, `tasks`; NaN at budgets where a seed has no finite score: dropping it would
        favour algorithms whose bad seeds end early.

    Raises:
        ResultsError: Curves are of another shape, or do not fit the budgets.
    """
    rows = []
    for name, values in curves.items():
        cube = np.asarray(values, dtype=float)
        cube = cube[:, None, :] if cube.ndim == 2 else cube
        if cube.ndim != 3 or cube.shape[-1] != len(budgets) or not cube.size:
            raise ResultsError(
                f"{name}: curves must be [seeds, budgets] or [seeds, tasks, budgets] with "
                f"{len(budgets)} budgets, not of shape {list(np.shape(values))}"
            )
        for place, budget in enumerate(budgets):
            at = cube[..., place]
            low, high = bootstrap_interval(
                at, interquartile_mean, confidence=confidence, resamples=resamples, seed=seed
            )
            value = float(interquartile_mean(at)) if np.isfinite(at).all() else np.nan
            rows.append((name, budget, value, float(low), float(high), *at.shape))
    columns = ["algorithm", "budget", "iqm", "low", "high", "seeds", "tasks"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs.update(confidence=confidence, resamples=resamples)
    return frame


def same_tasks(scores: Mapping[str, npt.ArrayLike]) -> dict[str, Floats]:
    """Return each algorithm's scores as `[seeds, tasks]`.

    Raises:
        ResultsError: There are none, or their numbers of tasks differ.
    """
    tables = {str(name): as_scores(values, str(name)) for name, values in scores.items()}
    if not tables:
        raise ResultsError("scores of at least one algorithm are needed")
    counts = {name: table.shape[1] for name, table in tables.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ResultsError(f"the algorithms must have the same tasks; numbers of tasks: {said}")
    return tables
