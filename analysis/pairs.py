"""Two algorithms at a time: which one is better, and whether that could be chance."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.ranking import sign_of
from analysis.statistics import iqm, probability_of_improvement

MIN_RUNS = 5
"""Fewer runs of one task are not judged: of three and three no test could tell them apart at 5 %,
and the bootstrap's intervals of so few are far too narrow."""

MIN_RUNS_OF_TASKS, MIN_SCORES = 3, 10
"""On several tasks so many runs of each are enough, if they are so many in all."""

RESAMPLES = 2_000
_DRAWS = 9_999


def compare_pairs(
    scores: Mapping[str, npt.ArrayLike],
    *,
    mode: str = "max",
    chosen_from: Mapping[str, int] | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Compares each two algorithms.

    One is called better if a permutation test says that the two differ (Holm's correction over the
    pairs), and the interval of the probability of improvement, which holds for all pairs at once
    (Bonferroni), excludes 0.5. The test keeps its level for few seeds, where the bootstrap's
    intervals alone are too narrow; the interval does not assume that both vary alike.

    Where the better one's scores were chosen among k by these very values, p is multiplied by k and
    the interval widened to match: each of the k could have been the one that passes (union bound).

    Args:
        scores: By algorithm, ``[runs, tasks]`` or ``[runs]`` of one task; the numbers of runs may
            differ. Of several tasks they are on one scale.
        mode: ``"max"`` where higher scores are better, else ``"min"``.
        chosen_from: By algorithm, among how many its scores were chosen by their own values; those
            that are not in it were not chosen.
        confidence: Of all intervals together, and 1 less the level of all tests together.
        resamples: Of the bootstrap.
        seed: Of the bootstrap and of the permutations.

    Returns:
        One row per pair, the one that looks better as ``a``: ``a``, ``b``, ``runs_a``, ``runs_b``,
        ``probability`` (that a run of a is better than one of b, ties counting half; the mean over
        tasks), its interval ``low``, ``high``; ``p`` (of one pair), ``p_adjusted`` (for
        the choice among ``chosen_from``, and Holm's);
        ``needed``: the probability from which on so many runs could have shown a difference;
        ``difference`` of the interquartile means, a less b, with ``difference_low`` and
        ``difference_high``; ``enough``: whether there are runs enough to judge; ``better``.

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
        choice = (chosen_from or {}).get(a, 1)
        options: dict[str, Any] = {"resamples": resamples, "seed": seed}
        options["confidence"] = 1 - level / choice
        improvement = probability_of_improvement(x, y, mode=mode, **options)
        p, needed = permutation_test(x, y, level=level / choice, seed=seed)
        low, high = iqm_difference(x, y, **options)
        row = {"a": a, "b": b, "runs_a": len(x), "runs_b": len(y), "chosen_from": choice}
        row |= {"probability": improvement.probability}
        row |= {"low": improvement.low, "high": improvement.high, "p": p, "needed": needed}
        row |= {"difference": iqm(x) - iqm(y), "difference_low": low, "difference_high": high}
        rows.append(row | {"enough": enough(x, y)})
    frame = pd.DataFrame(rows)
    place = list(frame).index("p") + 1
    frame.insert(place, "p_adjusted", holm(np.minimum(1, frame["p"] * frame["chosen_from"])))
    shown = (frame["low"] > 0.5) & (frame["p_adjusted"] <= 1 - confidence)
    frame["better"] = shown & frame["enough"]
    frame.attrs.update(confidence=confidence, pairs=len(pairs))
    return frame


def permutation_test(
    x: np.ndarray, y: np.ndarray, *, level: float = 0.05, draws: int = _DRAWS, seed: int = 0
) -> tuple[float, float]:
    """Whether two algorithms' scores could be draws of one: by the probability of improvement.

    Under the hypothesis that they do not differ, which run belongs to which is chance: on each task
    the labels are drawn anew. Of one task this is the Wilcoxon-Mann-Whitney test, ties and all.

    Args:
        x: ``[runs, tasks]``.
        y: ``[runs, tasks]``.
        level: Of the test.
        draws: Permutations.
        seed: Of the permutations.

    Returns:
        The two-sided p-value, at least ``1 / (draws + 1)``; and the least probability of
        improvement at which it would have been at most ``level`` (above 1 if none would).
    """
    from scipy.stats import rankdata

    rng = np.random.default_rng(seed)
    n, m = len(x), len(y)
    ranks = rankdata(np.concatenate([x, y]), axis=0)  # [runs, tasks], each task by itself
    sums = np.zeros(draws)
    for task in ranks.T:
        sums += rng.permuted(np.tile(task, (draws, 1)), axis=1)[:, :n].sum(axis=1)

    def distance(rank_sums: npt.ArrayLike) -> np.ndarray:
        mean = np.asarray(rank_sums) / ranks.shape[1]
        return np.abs((mean - n * (n + 1) / 2) / (n * m) - 0.5)

    chance = np.sort(distance(sums))
    # Sums of ranks in another order differ in their last bits.
    beyond = draws - np.searchsorted(chance, distance(ranks[:n].sum()) - 1e-9)
    allowed = int(level * (draws + 1)) - 1  # so many draws may lie at or beyond
    steps = np.unique(chance.round(9))
    counts = draws - np.searchsorted(chance, steps - 1e-9)
    enough_steps = steps[counts <= allowed]
    needed = 0.5 + enough_steps[0] if len(enough_steps) else float("inf")
    return float((beyond + 1) / (draws + 1)), float(needed)


def iqm_difference(
    x: np.ndarray,
    y: np.ndarray,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of the difference of two interquartile means, x less y.

    The runs of each algorithm on each task are drawn anew, by themselves.

    Args:
        x: ``[runs, tasks]``.
        y: ``[runs, tasks]``.
        confidence: Of the interval.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

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
    """p-values for several tests at once (Holm, 1979): the smallest times their number, and on."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    scaled = np.minimum(1, p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted


def enough(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether there are runs enough to judge."""
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
