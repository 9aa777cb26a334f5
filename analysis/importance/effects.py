"""Which settings mattered: the effect of each setting with few levels, with its uncertainty.

The effect of a setting is the mean of its best level less the mean of its worst one. Where the
sweep holds every combination (a grid), trials that differ in nothing else are compared; elsewhere
the levels are compared as independent groups of configurations. Both intervals are Student's t with
two corrections without which noise would pass for an effect: the two levels were picked as the best
and the worst of several (Tukey's studentized range), and several settings are judged at once
(Bonferroni).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames.frames import varying
from analysis.names import ENV_STEPS, ITERATION, finite, sign_of
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError, flatten

if TYPE_CHECKING:
    from ray.tune import ResultGrid

_COLUMNS = (
    *("rank", "setting", "level", "trials", "mean", "mean_low", "mean_high"),
    *("effect", "effect_low", "effect_high", "excludes_zero", "paired"),
)
_MAX_LEVELS = 8
_MIN_TRIALS = 2
"""A level with one trial says nothing about noise."""
_END = 0.2
"""Share of a trial's training whose mean is its value: one evaluation is too noisy, and the best of
many rewards luck and length."""
_CONTEXT = ("seed", "env")
"""Settings within which others are compared; nobody asks for the best of them."""


def effects_frame(
    results: ResultGrid | Sweep | str | Path,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the settings that have a few levels, from the largest effect to the least.

    A trial counts with the mean of `metric` over the last fifth of its environment steps, however
    early a scheduler ended it; one that failed or was cut off does not. Settings with 2 to 8 levels
    are ranked. Levels with a single trial are left out, and so are `seed` and `env`. Settings
    that always changed together are one setting, `a + b`: their effects cannot be told apart.

    The intervals take the trials as drawn without regard to their results, as a grid and a random
    search do. A search that learns (Optuna's) tries good levels more often, and later, beside
    better values of the other settings: its intervals are too narrow.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        confidence: Probability that the intervals of all effects together hold the true ones.

    Returns:
        One row per setting and level; settings whose interval excludes 0 first, then by effect;
        within a setting the best level first. Of the level: `trials` (trials of the same
        configuration count once, with their mean; not compared in pairs, those that differ in
        `seed` or `env` only are one configuration too, unless the sweep varied nothing else
        than this setting), their `mean`, its own t interval
        `mean_low`, `mean_high`.
        Of the setting: `rank` (from 1), `effect` (how much better the best level is than the
        worst, never negative), its interval `effect_low`, `effect_high`, `excludes_zero`
        (where values do not vary at all: by a permutation test), `paired` (whether trials that
        differ in nothing else were compared). Empty if no setting qualifies. `attrs` holds
        `metric`, `mode`, `confidence` and `sweep`.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported `metric`, or `mode` or
            `confidence` is not allowed.
    """
    sweep = load_sweep(results)
    sign = sign_of(mode)
    if not 0 < confidence < 1:
        raise ResultsError(f"confidence must be between 0 and 1, not {confidence}")
    sweep.require_metric(metric)
    ends = [(t, _end_value(t, metric)) for t in sweep.trials if t.status == "TERMINATED"]
    ends = [(trial, value) for trial, value in ends if np.isfinite(value)]
    values = sign * np.array([value for _, value in ends])
    factors = _factors([trial for trial, _ in ends], sweep)
    same = _configurations([trial for trial, _ in ends])
    samples = [
        (factor, *_sample(values, factor, [f for f in factors if f is not factor], same))
        for factor in factors
        if factor.name not in _CONTEXT and len(factor.levels) <= _MAX_LEVELS
    ]
    samples = [sample for sample in samples if len(sample[1]) > 1]
    each = 1 - (1 - confidence) / max(len(samples), 1)
    effects = [_Effect.of(*sample, each) for sample in samples]
    effects.sort(key=lambda effect: (not effect.excludes_zero, -effect.size))
    rows = [row for rank, e in enumerate(effects, 1) for row in e.rows(rank, sign, confidence)]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    frame.attrs.update(metric=metric, mode=mode, confidence=confidence, sweep=sweep.name)
    return frame


def level_label(level: Any) -> str:
    """Return a level as a report shows it: `true`, `0.003`, `[64, 64]`, `uniform`."""
    return level if isinstance(level, str) else json.dumps(level, default=str)


@dataclass(frozen=True)
class _Factor:
    """A setting as a column: `codes[trial]` is the index in `levels` of the trial's level."""

    name: str
    levels: list[Any]
    codes: np.ndarray


@dataclass(frozen=True)
class _Effect:
    """A setting's levels, best first, and how far the best is above the worst.

    Attributes:
        name: The setting.
        levels: Its levels.
        values: Values of each level's trials, larger is better.
        size: The effect.
        margin: Half the width of its interval.
        paired: Whether trials that differ in nothing else were compared.
        confidence: The level of the interval.
    """

    name: str
    levels: list[Any]
    values: list[np.ndarray]
    size: float
    margin: float
    paired: bool
    confidence: float

    @property
    def excludes_zero(self) -> bool:
        if self.margin > 0:
            return self.size > self.margin
        # Values that are all equal have no spread to judge by: is it chance that they are?
        best, worst = len(self.values[0]), len(self.values[-1])
        pairs_of_levels = comb(len(self.levels), 2)
        ways = 2**best if self.paired else comb(best + worst, best)
        return self.size > 0 and 2 * pairs_of_levels / ways < 1 - self.confidence

    @classmethod
    def of(
        cls, factor: _Factor, groups: dict[int, np.ndarray], paired: bool, confidence: float
    ) -> _Effect:
        order = sorted(groups, key=lambda level: -groups[level].mean())
        best, worst = groups[order[0]], groups[order[-1]]
        error, freedom = _paired_error(best, worst) if paired else _welch_error(best, worst)
        margin = _range_quantile(confidence, len(order), freedom) * error
        size = float(best.mean() - worst.mean())
        levels = [factor.levels[level] for level in order]
        values = [groups[level] for level in order]
        return cls(factor.name, levels, values, size, margin, paired, confidence)

    def rows(self, rank: int, sign: float, confidence: float) -> list[dict[str, Any]]:
        of_setting = {
            "rank": rank,
            "setting": self.name,
            "effect": self.size,
            "effect_low": self.size - self.margin,
            "effect_high": self.size + self.margin,
            "excludes_zero": self.excludes_zero,
            "paired": self.paired,
        }
        rows = []
        for level, values in zip(self.levels, self.values, strict=True):
            mean, margin = sign * float(values.mean()), _mean_margin(values, confidence)
            of_level = {"level": level, "trials": len(values), "mean": mean}
            interval = {"mean_low": mean - margin, "mean_high": mean + margin}
            rows.append({**of_setting, **of_level, **interval})
        return rows


@lru_cache(maxsize=128)  # a tenth of a second each
def _range_quantile(confidence: float, levels: int, freedom: float) -> float:
    """Return the quantile for the best less the worst of several means, in standard errors.

    Tukey's studentized range; for two levels it is Student's t.
    """
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(confidence, levels, freedom) / np.sqrt(2))


def _paired_error(best: np.ndarray, worst: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the mean difference of pairs, and its degrees of freedom."""
    differences = best - worst
    return float(differences.std(ddof=1) / np.sqrt(len(best))), len(best) - 1


def _welch_error(best: np.ndarray, worst: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the difference of two means (Welch, 1947), and its freedom."""
    parts = np.array([values.var(ddof=1) / len(values) for values in (best, worst)])
    freedoms = np.array([len(best) - 1, len(worst) - 1])
    total = parts.sum()
    freedom = total**2 / (parts**2 / freedoms).sum() if total > 0 else freedoms.sum()
    return float(np.sqrt(total)), float(freedom)


def _mean_margin(values: np.ndarray, confidence: float) -> float:
    from scipy.stats import t

    quantile = t.ppf((1 + confidence) / 2, len(values) - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(len(values)))


def _end_value(trial: TrialRecord, metric: str) -> float:
    """Return the mean of the metric over the last fifth of the steps with one; NaN if none."""
    values = finite(trial.frame.get(metric))
    steps = finite(trial.frame.get(ENV_STEPS, trial.frame.get(ITERATION)))
    steps = steps.reindex(values.index)
    return float(values[steps > (1 - _END) * steps.max()].mean())


def _factors(trials: list[TrialRecord], sweep: Sweep) -> list[_Factor]:
    """Return the settings that differ between trials, those that change together as one."""
    moving = {name for trial in trials for name in _changed_within(trial)}
    flats = [flatten(trial.config, "config/") for trial in trials]
    factors: dict[tuple[int, ...], _Factor] = {}
    for column in varying(sweep.trials):
        texts = [json.dumps(flat.get(column), sort_keys=True, default=str) for flat in flats]
        known = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        if column in moving or len(known) < 2:
            continue
        codes = [known[text] for text in texts]
        levels = [flats[codes.index(code)].get(column) for code in known.values()]
        factor = _Factor(column.removeprefix("config/"), levels, np.array(codes))
        twin = factors.get(tuple(codes))
        factors[tuple(codes)] = factor if twin is None else _joined(twin, factor)
    return list(factors.values())


def _joined(a: _Factor, b: _Factor) -> _Factor:
    levels = [
        f"{level_label(x)} + {level_label(y)}" for x, y in zip(a.levels, b.levels, strict=True)
    ]
    return _Factor(f"{a.name} + {b.name}", levels, a.codes)


def _changed_within(trial: TrialRecord) -> set[str]:
    """Return columns that changed during the trial (PBT): no one level made its result."""
    flats = [flatten(config, "config/") for config in trial.row_configs or []]
    return {name for flat in flats for name in flat if flat[name] != flats[-1].get(name)}


def _configurations(trials: list[TrialRecord]) -> np.ndarray:
    """Return which configuration each trial has, `[trials]`: equal where all but its context is."""
    names = [n for n in varying(trials) if n.removeprefix("config/") not in _CONTEXT]
    flats = [flatten(trial.config, "config/") for trial in trials]
    texts = [json.dumps([flat.get(n) for n in names], default=str) for flat in flats]
    return np.array(pd.factorize(np.array(texts, dtype=object))[0])


def _sample(
    values: np.ndarray, factor: _Factor, others: list[_Factor], same: np.ndarray
) -> tuple[dict[int, np.ndarray], bool]:
    """Return the values to compare, by level, and whether they are paired, in one order.

    A block is all trials that agree in the other settings; repetitions in it are averaged. Blocks
    that lack a level (a trial failed) are left out. Where that leaves less than half of the trials,
    the sweep was no grid, and all configurations of each level are an independent group. Its runs
    are averaged: they share their other settings, so they are one piece of evidence, not several.
    Where a level is a single configuration, no other setting varies: its runs are all there is.
    """
    columns = np.stack([*(other.codes for other in others), np.zeros_like(factor.codes)], axis=1)
    _, block = np.unique(columns, axis=0, return_inverse=True)
    shape = (int(block.max()) + 1, len(factor.levels))
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (block, factor.codes), values)
    np.add.at(counts, (block, factor.codes), 1)
    whole = (counts > 0).all(axis=1)
    if whole.sum() >= _MIN_TRIALS and 2 * counts[whole].sum() >= len(values):
        means = sums[whole] / counts[whole]
        return dict(enumerate(means.T)), True
    if same.max() + 1 == len(factor.levels):
        same = np.arange(len(values))
    averages = pd.Series(values).groupby([factor.codes, same]).mean()
    groups = {code: averages[code].to_numpy() for code in range(len(factor.levels))}
    return {code: group for code, group in groups.items() if len(group) >= _MIN_TRIALS}, False
