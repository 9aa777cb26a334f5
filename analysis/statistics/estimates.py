"""Point estimates of a few runs' scores: mean, median, interquartile mean, optimality gap.

The definitions are those of Agarwal et al. (2021), "Deep reinforcement learning at the edge of the
statistical precipice", section 4, and the numbers those of the authors' library rliable. Scores are
`[seeds, tasks]`, any dimensions before those are a batch (a bootstrap's resamples).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.results.rows import ResultsError

Floats = npt.NDArray[np.float64]

CUT = 0.25
"""The share that the interquartile mean leaves out on each side."""


def as_scores(values: npt.ArrayLike, name: str = "scores") -> Floats:
    """Return scores as `[seeds, tasks]`; one dimension is the seeds of a single task.

    Raises:
        ResultsError: They are not numbers, ragged, empty, or of more than two dimensions.
    """
    try:
        scores = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ResultsError(
            f"{name}: scores must be numbers, [seeds] or [seeds, tasks] ({error})"
        ) from error
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim != 2 or not scores.size:
        raise ResultsError(
            f"{name}: scores must be [seeds] or [seeds, tasks] and not empty, "
            f"not of shape {list(np.shape(values))}"
        )
    return scores


def normalise(scores: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Floats:
    """Return scores of several tasks on one scale: `(score - low) / (high - low)`.

    Without it the task with the largest returns decides every average over tasks.

    Args:
        scores: `[seeds, tasks]`, or `[seeds]` of one task.
        low: The score that shall be 0, of each task or of all: e.g. a random policy's.
        high: The score that shall be 1: e.g. the score at which the task counts as solved.

    Raises:
        ResultsError: `low` and `high` are equal or do not fit the number of tasks.
    """
    raw = as_scores(scores)
    try:
        bottom, top = (np.broadcast_to(np.asarray(x, float), raw.shape[1:]) for x in (low, high))
    except ValueError as error:
        raise ResultsError(f"low and high must be one number or one per task: {error}") from error
    if (bottom == top).any():
        raise ResultsError(f"low and high of a task must differ; both are {bottom[bottom == top]}")
    return np.asarray((raw - bottom) / (top - bottom))


def task_means(scores: Floats) -> Floats:
    """Return the mean over seeds of each task: `[..., seeds, tasks]` -> `[..., tasks]`."""
    return np.asarray(scores.mean(axis=-2))


def mean(scores: Floats) -> Floats:
    """Return the mean over tasks of the mean over seeds, `[...]`."""
    return np.asarray(task_means(scores).mean(axis=-1))


def median(scores: Floats) -> Floats:
    """Return the median over tasks of the mean over seeds, `[...]`: of one task it is the mean."""
    return np.asarray(np.median(task_means(scores), axis=-1))


def interquartile_mean(scores: Floats) -> Floats:
    """Return the mean of the middle half of all seeds of all tasks, `[...]`.

    Of each side `floor(n / 4)` of the `n = seeds * tasks` scores are left out.
    """
    from scipy.stats import trim_mean

    pooled = scores.reshape(*scores.shape[:-2], -1)
    return np.asarray(trim_mean(pooled, CUT, axis=-1))


def optimality_gap(scores: Floats, target: float = 1.0) -> Floats:
    """Return by how much the scores fall short of `target` (gamma) on average, `[...]`; 0 is best.

    Scores above the target count as the target, so that one task cannot make up for another.
    """
    return np.asarray(target - np.minimum(scores, target).mean(axis=(-2, -1)))


def iqm(values: npt.ArrayLike) -> float:
    """Return the interquartile mean: the mean without the lowest and the highest quarter.

    Of each side `floor(n / 4)` values are left out: none of 3, one of 5, two of 10.

    Args:
        values: Scores of any shape, each counting alike; e.g. `[seeds]` or `[seeds, tasks]`.

    Returns:
        NaN if any of them is not finite: a seed that diverged is not to be trimmed away.
    """
    scores = np.asarray(values, dtype=float)
    if not np.isfinite(scores).all():
        return float("nan")
    return float(interquartile_mean(scores.reshape(-1, 1)))


def median_index(values: Sequence[float]) -> int:
    """Return which of the values is the median; the lower of the two middle ones of an even number.

    Of equal values the first; values that are not finite count as the lowest.
    """
    scores = np.asarray(values, dtype=float)
    order = np.argsort(np.where(np.isfinite(scores), scores, -np.inf), kind="stable")
    return int(order[(len(order) - 1) // 2])
