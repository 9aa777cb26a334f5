"""A sweep as tidy pandas frames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.names import ENV_STEPS, HOST, ITERATION, RETURN, SECONDS
from analysis.results.records import TrialRecord
from analysis.results.rows import flatten
from analysis.results.sources import are_several, load_sweeps
from analysis.results.spec_file import read_spec_file

if TYPE_CHECKING:
    from analysis.results.records import Source

SWEEP = "sweep"
_OWN = (SWEEP, "trial_id", "status", HOST, ITERATION)
_AXES = (ITERATION, ENV_STEPS, SECONDS)


def trials_frame(results: Source | Sequence[Source]) -> pd.DataFrame:
    """Return one row per trial: its status, its last result and its whole config.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several; see `load_sweeps`.

    Returns:
        A frame with `trial_id`, `status`, where trials shared processes `host` (the one that
        trained it last, counted from 0), and `training_iteration`, then a column per metric (the
        last row's value; NaN where a trial did not report it), the sweep's objective first and
        losses last, then a `config/...` column per setting, nested ones joined by `/`. Trials
        without a result have `training_iteration` 0. `frame.attrs["varying"]` lists the config
        columns that the search varied, in the order of the config. Of several sweeps (a list, or a
        folder of sweeps) the first column is `sweep`, and what differs between them varies too.

    Raises:
        ResultsError: The folder holds no sweep.
    """
    trials = list(named_trials(results))
    rows = []
    for head, trial in trials:
        last = dict(trial.frame.iloc[-1]) if len(trial.frame) else {ITERATION: 0}
        row = {**head, "status": trial.status, ITERATION: int(last[ITERATION])}
        row.update({str(k): v for k, v in last.items() if k == HOST or k not in _OWN})
        row.update(flatten(trial.config, "config/"))
        rows.append(row)
    frame = pd.DataFrame(rows)
    hosts = [trial.host for _, trial in trials]
    if hosts.count(None) < len(hosts):
        frame[HOST] = pd.Series(hosts, frame.index, dtype="Int64")
    names = [str(c) for c in frame.columns if c not in _OWN]
    metrics = [c for c in names if not c.startswith("config/")]
    settings = [c for c in names if c.startswith("config/")]
    metrics = _in_reading_order(metrics, [trial for _, trial in trials])
    frame = frame.loc[:, [*(c for c in _OWN if c in frame), *metrics, *settings]]
    frame.attrs["varying"] = varying(trial for _, trial in trials)
    return frame


def curves_frame(
    results: Source | Sequence[Source], metrics: Iterable[str] | None = None
) -> pd.DataFrame:
    """Return the learning curves in long form: one row per trial and training iteration.

    What a resumed trial wrote twice is there once, as the run that counts wrote it.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or several; see `load_sweeps`.
        metrics: The metrics to keep (default: all).

    Returns:
        A frame with `trial_id`, `training_iteration`, `num_env_steps_sampled_lifetime` and
        `time_total_s` (seconds of training) where they were reported, the metrics (the sweep's
        objective first, losses last), and a `config/...` column per setting that varies between
        trials or, under PBT, within one (then with the value that the row was trained with). Of
        several sweeps (a list, or a folder of sweeps) the first column is `sweep`.

    Raises:
        ResultsError: The folder holds no sweep, or a sweep of which no trial reported one of
            `metrics`.
    """
    wanted = None if metrics is None else list(metrics)
    trials = list(named_trials(results, wanted or ()))
    names = varying(trial for _, trial in trials)
    own = ["trial_id"] if not are_several(results) else [SWEEP, "trial_id"]
    trials = [(head, trial) for head, trial in trials if len(trial.frame)]
    if not trials:
        return pd.DataFrame(columns=[*own, ITERATION, *(wanted or ()), *names])
    frames = [_without(trial.frame, own, wanted) for _, trial in trials]
    curves = pd.concat(frames, ignore_index=True)
    counts = [len(frame) for frame in frames]
    first = {name: np.repeat([head[name] for head, _ in trials], counts) for name in own}
    settings = _setting_columns([trial for _, trial in trials], names)
    axes = [c for c in _AXES if c in curves]
    middle = [str(c) for c in curves if c not in axes]
    if wanted is None:
        middle = _in_reading_order(middle, [trial for _, trial in trials])
    parts = [pd.DataFrame(first), curves.loc[:, [*axes, *middle]], pd.DataFrame(settings)]
    return pd.concat(parts, axis=1)


def _without(frame: pd.DataFrame, own: list[str], wanted: list[str] | None) -> pd.DataFrame:
    """Return the columns of a trial that its curves keep."""
    keep = frame.columns if wanted is None else {*_AXES, *wanted}
    return frame.iloc[:, [i for i, c in enumerate(frame) if c in keep and c not in own]]


def named_trials(
    results: Source | Sequence[Source], metrics: Iterable[str] = ()
) -> Iterator[tuple[dict[str, str], TrialRecord]]:
    """Return each trial behind the columns that say which one it is.

    Args:
        results: What `load_sweeps` takes.
        metrics: What some trial of each sweep must have reported.

    Raises:
        ResultsError: A source holds no sweep, or one of which no trial reported a metric.
    """
    several = are_several(results)
    metrics = list(metrics)
    for sweep in load_sweeps(results):
        for metric in metrics:
            sweep.require_metric(metric)
        for trial in sweep.trials:
            head = {SWEEP: sweep.name} if several else {}
            yield {**head, "trial_id": trial.trial_id}, trial


def varying(trials: Iterable[TrialRecord]) -> list[str]:
    """Return the `config/...` columns that the search set, or that differ."""
    values: dict[str, set[str]] = {}
    searched: set[str] = set()
    configs = []
    for trial in trials:
        searched.update(f"config/{name}" for name in trial.searched)
        configs += [flatten(config, "config/") for config, _ in _stretches(trial)]
    for number, config in enumerate(configs):
        for name, value in config.items():
            # A setting that only some trials have differs too.
            seen = values.setdefault(name, {"<absent>"} if number else set())
            seen.add(json.dumps(value, sort_keys=True, default=str))
        for name in values.keys() - config.keys():
            values[name].add("<absent>")
    return [name for name, seen in values.items() if name in searched or len(seen) > 1]


def _setting_columns(trials: Sequence[TrialRecord], names: list[str]) -> dict[str, pd.Series]:
    """Return the settings of each row of the trials: a trial's own, or under PBT the row's."""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for trial in trials:
        flats = [(flatten(c, "config/"), n) for c, n in _stretches(trial)]
        for name, values in columns.items():
            own = [(flat.get(name), count) for flat, count in flats]
            kinds = {type(value) for value, _ in own}
            if kinds & {int, float} and kinds <= {int, float, type(None)}:
                # Before the setting was there, it is a number that is missing.
                own = [(float("nan") if v is None else v, n) for v, n in own]
            for value, count in own:
                values.extend([value] * count)
    return {name: _series(values) for name, values in columns.items()}


def _series(values: list[Any]) -> pd.Series:
    """Return a column of numbers or of one type; of objects where trials differ in the type."""
    kinds = {type(value) for value in values}
    alike = len(kinds) == 1 or kinds <= {int, float}
    return pd.Series(values, dtype=None if alike else object)


def _stretches(trial: TrialRecord) -> list[tuple[dict[str, Any], int]]:
    """Return the configs that a trial had one after the other, and how many rows of each."""
    if trial.row_configs is None:
        return [(trial.config, len(trial.frame))]
    found: list[tuple[dict[str, Any], int]] = []
    for config in trial.row_configs:
        if found and (config is found[-1][0] or config == found[-1][0]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((config, 1))
    return found


def _in_reading_order(names: Iterable[str], trials: Iterable[TrialRecord]) -> list[str]:
    """Return the metrics with the sweeps' objectives first, then budgets, numbers, families.

    Families are what has a `/` in its name, as losses (`learner/…`) and times have. Within each
    kind the order stays.
    """
    objectives = _objectives(trials)
    first = [*objectives, ENV_STEPS, SECONDS]

    def kind(name: str) -> tuple[int, int]:
        if name in first:
            return 0, first.index(name)
        return (2 if "/" in name else 1), 0

    return sorted(names, key=kind)


def _objectives(trials: Iterable[TrialRecord]) -> list[str]:
    """Return what the trials' sweeps optimise; the return where a folder has no spec."""
    found: list[str] = []
    for folder in dict.fromkeys(trial.path.parent for trial in trials):
        spec = read_spec_file(folder)
        several = spec.get("objectives") or [spec.get("objective") or {}]
        found += [str(one.get("metric", RETURN)) for one in several if isinstance(one, dict)]
    return list(dict.fromkeys(found)) or [RETURN]
