"""What a surrogate of a sweep learns from: the trials' settings as numbers, and one value of each.

Settings lie on the scale that they were searched on: a step size between 1e-5 and 1e-1 as its
logarithm, a discount by its distance to 1, choices as levels. On any other scale a range of small
values would be next to nothing, and count as much.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from analysis.frames.frames import varying
from analysis.importance.fanova import Axis
from analysis.importance.scales import Scale, label, scales_of
from analysis.names import ENV_STEPS, ITERATION, finite, sign_of
from analysis.results.load import load_sweep
from analysis.results.records import TrialRecord
from analysis.results.rows import ResultsError, flatten
from analysis.results.spec_file import read_spec_file

if TYPE_CHECKING:
    from analysis.results.records import Source

Budget = float | Literal["shared", "last"] | None
MIN_TRIALS = 8
_SAME_BUDGET = 0.9
_ABSENT = 0.25
"""Where a numeric setting lies in trials that do not have it: so much of its range below it."""


@dataclass(frozen=True)
class SurrogateData:
    """Configurations as numbers. One that was trained several times (seeds) is one of them.

    Attributes:
        sweep: Its name.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        settings: Those that vary, `model/fcnet_activation`; `a + b` where they always change
            together.
        scales: The scale of each setting.
        raw: The configurations' own values, a column per setting.
        axes: How much each value of a setting counts in an average over it: numbers even over the
            scale from the least value that was tried to the greatest, choices alike. Not as often
            as they were tried: a search tries what is good more often. Trials without the setting
            keep their share.
        positions: The places on the scales, `[configurations, settings]`.
        values: The values of the metric, `[configurations]`: the mean over the trials of each.
        trials: How many trials they are the values of.
        budget: The env steps at which they were read; None where each is the trial's last.
        left_out: How many trials do not count, by reason.
        caution: About the values.
    """

    sweep: str
    metric: str
    mode: str
    settings: tuple[str, ...]
    scales: tuple[Scale, ...]
    axes: tuple[Axis, ...]
    raw: pd.DataFrame
    positions: np.ndarray
    values: np.ndarray
    trials: int
    budget: float | None
    left_out: dict[str, int]
    caution: str


def surrogate_data(results: Source, metric: str, mode: str, at_budget: Budget) -> SurrogateData:
    """Read a sweep; arguments and errors are those of `importance_frame`."""
    sweep = load_sweep(results)
    sign_of(mode)
    sweep.require_metric(metric)
    ended = [trial for trial in sweep.trials if trial.status == "TERMINATED"]
    left_out = {"not ended or failed": len(sweep.trials) - len(ended)}
    curves = [(trial, _curve(trial, metric)) for trial in ended]
    curves = [(trial, curve) for trial, curve in curves if len(curve)]
    left_out["no finite value"] = len(ended) - len(curves)
    budget = _budget(at_budget, [curve for _, curve in curves])
    trials, values = [], []
    for trial, curve in curves:
        reached = curve if budget is None else curve[curve.index <= budget]
        if not len(reached) or (budget is not None and curve.index[-1] < _SAME_BUDGET * budget):
            continue
        trials.append(trial)
        values.append(float(reached.iloc[-1]))
    left_out["did not reach the budget"] = len(curves) - len(trials)
    settings = _settings(trials, [t for t in sweep.trials if t.status == "TERMINATED"])
    raw, averaged = _configurations(trials, settings, np.array(values))
    if len(averaged) < MIN_TRIALS:
        found = f"{len(trials)} trials"
        if len(averaged) < len(trials):
            found = f"{len(averaged)} configurations ({found})"
        why = ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count)
        raise ResultsError(
            f"{sweep.path}: {found} with a finite {metric} are too few to say which "
            f"settings matter; it takes {MIN_TRIALS}" + (f" (left out: {why})" if why else "")
        )
    if len(set(averaged)) == 1:
        raise ResultsError(f"{sweep.path}: every trial has the same {metric}, {averaged[0]:g}")
    scales = scales_of(raw, [str(name) for name in raw], _search_space(sweep.path))
    columns = _columns(raw, scales)
    if not columns:
        raise ResultsError(f"{sweep.path}: no setting varies between trials, and within none")
    return SurrogateData(
        sweep.name,
        metric,
        mode,
        tuple(" + ".join(column.names) for column in columns),
        tuple(scales[column.names[0]] for column in columns),
        tuple(column.axis for column in columns),
        raw[[column.names[0] for column in columns]],
        np.stack([column.positions for column in columns], axis=1),
        averaged,
        len(trials),
        budget,
        {reason: count for reason, count in left_out.items() if count},
        _caution(at_budget, budget, [curve for _, curve in curves]),
    )


def _curve(trial: TrialRecord, metric: str) -> pd.Series:
    """Return the finite values by env steps, or by iteration where steps were not reported."""
    values = finite(trial.frame.get(metric))
    steps = finite(trial.frame.get(ENV_STEPS, trial.frame.get(ITERATION))).reindex(values.index)
    return pd.Series(values.to_numpy(), index=steps.to_numpy()).loc[lambda s: s.index.notna()]


def _budget(at_budget: Budget, curves: list[pd.Series]) -> float | None:
    if at_budget == "last" or not curves:
        return None
    least = float(min(curve.index[-1] for curve in curves))
    if at_budget is None:
        return least if _differ(curves) else None
    if at_budget == "shared":
        return least
    if isinstance(at_budget, bool) or not isinstance(at_budget, int | float) or at_budget <= 0:
        raise ResultsError(
            "at_budget must be a number of env steps above 0, 'shared', 'last' or None, "
            f"not {at_budget!r}"
        )
    return float(at_budget)


def _differ(curves: list[pd.Series]) -> bool:
    """Tell whether some trials trained for clearly fewer steps than others."""
    ends = [float(curve.index[-1]) for curve in curves]
    return min(ends) < _SAME_BUDGET * max(ends)


def _caution(at_budget: Budget, budget: float | None, curves: list[pd.Series]) -> str:
    if not _differ(curves):
        return ""
    least, most = (f"{end(c.index[-1] for c in curves):,.0f}" for end in (min, max))
    if budget is None:
        return (
            f"Trials ended after {least} to {most} env steps and count with their last value, so "
            "settings that learn slowly look too bad."
        )
    if at_budget is None or at_budget == "shared":
        return (
            f"Trials ended after {least} to {most} env steps; all count with their value at "
            f"{least}, so this shows what mattered early in training."
        )
    return (
        f"Only trials that reached {budget:,.0f} env steps count. If a scheduler chose them, "
        "settings that a trial needs to get there seem not to matter."
    )


def _settings(trials: list[TrialRecord], all_trials: list[TrialRecord]) -> pd.DataFrame:
    """Return the settings that vary between the trials, but not within one, and not the seed."""
    moving = set()
    for trial in all_trials:
        flats = [flatten(config) for config in trial.row_configs or []]
        moving |= {name for flat in flats for name in flat if flat[name] != flats[-1].get(name)}
    names = [name.removeprefix("config/") for name in varying(trials)]
    names = [name for name in names if name not in moving and name != "seed"]
    flats = [flatten(trial.config) for trial in trials]
    columns = {name: [flat.get(name) for flat in flats] for name in names}
    return pd.DataFrame({k: pd.Series(values, dtype=object) for k, values in columns.items()})


def _configurations(
    trials: list[TrialRecord], settings: pd.DataFrame, values: np.ndarray
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the settings and the mean value of each configuration, in the trials' order.

    A tree that saw one seed of a configuration knows the others: they are no unseen trials. A
    population's trials stay as they are, since their settings changed on the way.
    """
    if not len(settings.columns):
        return settings, values
    rows = settings.to_numpy().tolist()
    texts = [
        json.dumps([number if trial.row_configs else 0, *row], default=str)
        for number, (trial, row) in enumerate(zip(trials, rows, strict=True))
    ]
    codes = pd.factorize(np.array(texts, dtype=object))[0]
    first = np.unique(codes, return_index=True)[1]
    means = pd.Series(values).groupby(codes).mean().to_numpy()
    return settings.iloc[first].reset_index(drop=True), means


def _search_space(folder: Path) -> dict[str, Any]:
    space = read_spec_file(folder).get("search_space")
    return space if isinstance(space, dict) else {}  # scales are then guessed from the values


@dataclass
class _Column:
    """One setting, or several that always change together: they cannot be told apart."""

    names: list[str]
    positions: np.ndarray
    axis: Axis


def _columns(raw: pd.DataFrame, scales: dict[str, Scale]) -> list[_Column]:
    """Return the settings that have two values or more, or that some trials lack."""
    found: dict[tuple[int, ...], _Column] = {}
    for name, scale in scales.items():
        positions, axis = _placed(scale.positions(raw[name]), scale)
        codes = _codes(positions, scale)
        if codes in found:
            found[codes].names.append(name)
        elif max(codes) > 0:
            found[codes] = _Column([name], positions, axis)
    return list(found.values())


def _codes(positions: np.ndarray, scale: Scale) -> tuple[int, ...]:
    """Return what is equal for settings of which one says the other.

    Levels may be in any order, numbers rise or fall.
    """
    if scale.kind == "category":
        return tuple(pd.factorize(positions)[0].tolist())
    ranks = np.unique(positions, return_inverse=True)[1]
    ranks = ranks if 2 * ranks[0] <= ranks.max() else ranks.max() - ranks
    return tuple(ranks.tolist())


def _placed(positions: np.ndarray, scale: Scale) -> tuple[np.ndarray, Axis]:
    """Return positions without gaps, and their axis."""
    if scale.kind == "category":
        levels, counts = np.unique(positions, return_counts=True)
        absent = np.array([scale.levels[int(level)] == label(None) for level in levels])
        share = counts[absent].sum() / len(positions)
        shares = np.where(absent, share, (1 - share) / max(1, (~absent).sum()))
        return positions, Axis(levels=tuple(levels), shares=tuple(shares / shares.sum()))
    present = np.isfinite(positions)
    if not present.any():
        return np.zeros_like(positions), Axis()
    low, high = float(positions[present].min()), float(positions[present].max())
    if present.all():
        return positions, Axis(low, high)
    absent_at = low - _ABSENT * ((high - low) or 1.0)
    axis = Axis(low, high, absent=absent_at, absent_share=float(1 - present.mean()))
    return np.where(present, positions, absent_at), axis
