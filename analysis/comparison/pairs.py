"""Two algorithms at a time: which one is better, and whether that could be chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.names import sign_of
from analysis.statistics import iqm, probability_of_improvement

MIN_RUNS = 5
"""Fewer runs of one task are not judged: of three and three no test could tell them apart at 5 %,
and the bootstrap's intervals of so few are far too narrow."""

MIN_RUNS_OF_TASKS, MIN_SCORES = 3, 10
"""On several tasks so many runs of each are enough, if they are so many in all."""

RESAMPLES = 2_000
_DRAWS = 9_999
_FINEST = 1e-9
"""Far below what resamples can tell; 1 less this is still below 1."""
_EXACT = 20_000_000
"""Up to so many additions the permutations are counted, not drawn: 30 and 30 runs."""


def compare_pairs(
    scores: Mapping[str, npt.ArrayLike],
    *,
    mode: str = "max",
    chosen_from: Mapping[str, int | Sequence[int]] | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare each two algorithms.

    One is called better if a permutation test says that the two differ (Holm's correction over the
    pairs), and the interval of the probability of improvement, which holds for all pairs at once
    (Bonferroni), excludes 0.5. The test keeps its level for few seeds, where the bootstrap's
    intervals alone are too narrow; the interval does not assume that both vary alike.

    Where the better one's scores were chosen among k by these very values, the test draws the best
    of k under the hypothesis too, on each task by itself where the choice was made there. (The k
    meet the same runs of the other one, so they are less apart than the independent draws, and the
    test errs on the safe side.) The interval is widened for all combinations that could have been
    chosen (union bound), as far as its resamples go.

    Args:
        scores: The scores by algorithm, `[runs, tasks]` or `[runs]` of one task; the numbers of
            runs may differ. Of several tasks they are on one scale.
        mode: `"max"` where higher scores are better, else `"min"`.
        chosen_from: Among how many an algorithm's scores were chosen by their own values, on each
            task by itself; a number is that of every task. Those that are not in it were not
            chosen.
        confidence: The level of all intervals together, and 1 less the level of all tests together.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap and of the permutations.

    Returns:
        One row per pair, the one that looks better as `a`: `a`, `b`, `runs_a`, `runs_b`,
        `tasks`, `chosen_from` (of a; of several tasks the most); `probability` (that a run of
        a is better than one of b, ties counting half; the mean over tasks), its interval `low`,
        `high`; `p` (of one pair), `p_adjusted` (for the choice, and Holm's); `needed`: the
        probability from which on so many runs could have shown a difference;
        `difference` of the interquartile means, a less b, with `difference_low` and
        `difference_high`; `enough`: whether there are runs enough to judge; `better`.

    Raises:
        ResultsError: The numbers of tasks differ, or an argument is not allowed.
    """
    tables = {name: _table(values) for name, values in scores.items()}
    pairs = list(combinations(tables, 2))
    level = (1 - confidence) / max(1, len(pairs))
    rows = []
    for one, other in pairs:
        a, b = _better_first(one, other, tables, mode)
        x, y = tables[a], tables[b]
        given = (chosen_from or {}).get(a, 1)
        choices = [given] * x.shape[1] if isinstance(given, int) else list(given)
        options: dict[str, Any] = {"resamples": resamples, "seed": seed}
        options["confidence"] = 1 - max(level / math.prod(choices), _FINEST)
        improvement = probability_of_improvement(x, y, mode=mode, **options)
        p, _ = permutation_test(x, y, seed=seed)
        p_chosen, needed = permutation_test(x, y, level=level, choices=choices, seed=seed)
        low, high = iqm_difference(x, y, **options)
        row = {"a": a, "b": b, "runs_a": len(x), "runs_b": len(y)}
        row |= {"tasks": x.shape[1], "chosen_from": max(choices), "p_chosen": p_chosen}
        row |= {"probability": improvement.probability}
        row |= {"low": improvement.low, "high": improvement.high, "p": p, "needed": needed}
        row |= {"difference": iqm(x) - iqm(y), "difference_low": low, "difference_high": high}
        rows.append(row | {"enough": enough(x, y)})
    frame = pd.DataFrame(rows)
    place = list(frame).index("p") + 1
    frame.insert(place, "p_adjusted", holm(frame.pop("p_chosen")))
    shown = (frame["low"] > 0.5) & (frame["p_adjusted"] <= 1 - confidence)
    frame["better"] = shown & frame["enough"]
    frame.attrs.update(confidence=confidence, pairs=len(pairs))
    return frame


def permutation_test(
    x: np.ndarray,
    y: np.ndarray,
    *,
    level: float = 0.05,
    choices: Sequence[int] | None = None,
    draws: int = _DRAWS,
    seed: int = 0,
) -> tuple[float, float]:
    """Tell whether two algorithms' scores could be draws of one: by the probability of improvement.

    Under the hypothesis that they do not differ, which run belongs to which is chance: on each task
    the labels are permuted. Of one task this is the Wilcoxon-Mann-Whitney test, ties and all. It is
    exact where the runs are few, else by draws.

    Args:
        x: `[runs, tasks]`.
        y: `[runs, tasks]`.
        level: The level of the test.
        choices: `[tasks]`: among how many the one that looks better was chosen on each task: it
            is then compared with the best of so many permutations of that task.
        draws: Permutations, where there are too many to count.
        seed: The seed of the permutations.

    Returns:
        The two-sided p-value: twice that of the better side; and the least probability of
        improvement at which it would have been at most `level` (above 1 if none would).
    """
    from scipy.stats import rankdata

    rng = np.random.default_rng(seed)
    n, m = len(x), len(y)
    # [runs, tasks], each task by itself; doubled, so that those of ties are whole numbers.
    ranks = np.rint(2 * rankdata(np.concatenate([x, y]), axis=0)).astype(int)
    middle = n * (n + m + 1)  # of a task's sum over x
    if ranks[:n].sum() < middle * ranks.shape[1]:
        ranks = 2 * (n + m + 1) - ranks  # the better side is the upper one
    null = np.ones(1)
    for task, choice in zip(ranks.T, choices or [1] * ranks.shape[1], strict=True):
        null = np.convolve(null, _best_of(_sums(task, n, draws, rng), choice))
    tail = np.minimum(1, 2 * null[::-1].cumsum()[::-1])  # p of each sum
    allowed = np.flatnonzero((tail <= level) & (null > 0))  # sums that can be
    # Half the sum's distance from the middle, of n x m pairs and the mean over tasks.
    scale = 2 * n * m * ranks.shape[1]
    least = int(allowed[0]) if len(allowed) else 0
    needed = 0.5 + (least - middle * ranks.shape[1]) / scale if least else float("inf")
    return float(tail[ranks[:n].sum()]), needed


def _sums(ranks: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return the probability of each sum of n of the (doubled) ranks: `[largest sum + 1]`."""
    largest = int(np.sort(ranks)[-n:].sum())
    if n * largest * len(ranks) <= _EXACT:
        counts = np.zeros((n + 1, largest + 1))  # of subsets, by size and sum
        counts[0, 0] = 1
        for rank in ranks:
            counts[1:, rank:] += counts[:-1, : largest + 1 - rank].copy()
        return np.asarray(counts[n] / counts[n].sum())
    found = [int(ranks[:n].sum())]  # what was seen is a permutation too
    for _ in range(draws):
        found.append(int(rng.permutation(ranks)[:n].sum()))
    return np.bincount(found, minlength=largest + 1) / len(found)


def _best_of(probabilities: np.ndarray, choice: int) -> np.ndarray:
    """Return the probabilities of the largest of so many independent draws."""
    if choice == 1:
        return probabilities
    beyond = np.append(probabilities[::-1].cumsum()[::-1][1:], 0).clip(0, 1)  # above each
    # (1 - beyond)**choice, exact where beyond is tiny
    with np.errstate(divide="ignore"):
        above = -np.expm1(choice * np.log1p(-beyond))  # of the largest
    return np.asarray(-np.diff(above, prepend=1.0))


def iqm_difference(
    x: np.ndarray,
    y: np.ndarray,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the difference of two IQMs, x less y.

    The runs of each algorithm on each task are drawn anew, by themselves.

    Args:
        x: `[runs, tasks]`.
        y: `[runs, tasks]`.
        confidence: The level of the interval.
        resamples: How many samples the bootstrap draws.
        seed: The seed of the bootstrap.

    Returns:
        Both ends; NaN where one has fewer than two runs.
    """
    from scipy.stats import bootstrap, trim_mean

    if min(len(x), len(y)) < 2:
        return float("nan"), float("nan")
    tasks = x.shape[1]

    def statistic(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
        ours, theirs = (np.concatenate(s, axis=axis) for s in (samples[:tasks], samples[tasks:]))
        difference = trim_mean(ours, 0.25, axis=axis) - trim_mean(theirs, 0.25, axis=axis)
        return np.asarray(difference)

    found = bootstrap(
        (*x.T, *y.T),
        statistic,
        n_resamples=resamples,
        vectorized=True,
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def holm(p_values: npt.ArrayLike) -> np.ndarray:
    """Adjust p-values for several tests (Holm, 1979): the smallest times their number, and on."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    scaled = np.minimum(1, p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted


def enough(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether there are runs enough to judge."""
    runs, tasks = min(len(x), len(y)), x.shape[1]
    several = tasks > 1 and runs >= MIN_RUNS_OF_TASKS and runs * tasks >= MIN_SCORES
    return runs >= MIN_RUNS or several


def _table(values: npt.ArrayLike) -> np.ndarray:
    scores = np.asarray(values, dtype=float)
    return scores[:, None] if scores.ndim == 1 else scores


def _better_first(
    one: str, other: str, tables: Mapping[str, np.ndarray], mode: str
) -> tuple[str, str]:
    x, y = tables[one], tables[other]
    wins = np.sign(sign_of(mode) * (x[:, None] - y[None])).mean()
    ahead = wins or sign_of(mode) * (iqm(x) - iqm(y))
    return (one, other) if ahead >= 0 else (other, one)
