"""How likely a run of one algorithm is better than a run of another on the same task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.aggregates import same_tasks
from analysis.statistics.estimates import Floats
from analysis.statistics.intervals import RESAMPLES, check_bootstrap


@dataclass(frozen=True)
class Improvement:
    """The probability of improvement of x over y.

    Attributes:
        probability: That a run of x scores more than a run of y, a tie counting half; the average
            over tasks. 0.5 where neither is better.
        low: Lower end of its interval.
        high: Upper end.
        confidence: The level of the interval.
        seeds: How many runs x and y have.
        tasks: How many tasks both were run on.
    """

    probability: float
    low: float
    high: float
    confidence: float
    seeds: tuple[int, int]
    tasks: int


def probability_of_improvement(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    mode: str = "max",
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Improvement:
    """Return the average over tasks of P(x > y) + P(x = y) / 2 (Agarwal et al., 2021, section 4.3).

    On each task it is the Mann-Whitney U statistic over the number of pairs. It says how often x is
    better, not by how much. The interval is a percentile bootstrap's, in which the seeds of x and
    of y are drawn anew within each task, by themselves.

    Where all runs of one are better than all of the other, no resample differs and the interval has
    no width: with few seeds that is no certainty.

    Args:
        x: Scores `[seeds, tasks]`, or `[seeds]` of one task.
        y: Scores of the other, on the same tasks; the number of seeds may differ.
        mode: `"max"` where higher scores are better, else `"min"`.
        confidence: The level of the interval.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        The probability and its interval: all NaN where a score is not finite, the interval also
        where one of the two has a single seed.

    Raises:
        ResultsError: The numbers of tasks differ, or an argument is not allowed.
    """
    from analysis.names import sign_of

    check_bootstrap(confidence, resamples)
    sign = sign_of(mode)
    tables = same_tasks({"x": x, "y": y})
    ours, theirs = sign * tables["x"], sign * tables["y"]
    seeds, tasks = (len(ours), len(theirs)), ours.shape[1]
    unknown = float("nan")
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return Improvement(unknown, unknown, unknown, confidence, seeds, tasks)
    wins = _wins(ours, theirs)
    probability = float(wins.mean())
    if min(seeds) < 2:
        return Improvement(probability, unknown, unknown, confidence, seeds, tasks)
    rng = np.random.default_rng(seed)
    resampled = np.zeros(resamples)
    for task in wins:
        mine, other = (_weights(rng, resamples, count) for count in seeds)
        resampled += ((mine @ task) * other).sum(axis=1) / tasks
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Improvement(probability, float(low), float(high), confidence, seeds, tasks)


def _wins(x: Floats, y: Floats) -> Floats:
    """Return 1 where a run of x beats one of y, 0.5 where they tie: `[tasks, seeds of x, of y]`.

    Its mean over the pairs of a task is Mann-Whitney's U over their number. It is kept as a table
    since every resample of the bootstrap is a weighted mean of it.
    """
    ours, theirs = x.T[:, :, None], y.T[:, None, :]
    return np.asarray((ours > theirs) + 0.5 * (ours == theirs))


def _weights(rng: np.random.Generator, resamples: int, seeds: int) -> Floats:
    """Return how often each seed is drawn, over the number of draws: `[resamples, seeds]`."""
    return np.asarray(rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds)
