"""A sweep as tidy pandas frames."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.records import ITERATION, Sweep, TrialRecord, load_sweep
from analysis.rows import flatten

if TYPE_CHECKING:
    from ray.tune import ResultGrid

_OWN = ("trial_id", "status", ITERATION)


def trials_frame(results: ResultGrid | Sweep | str | Path) -> pd.DataFrame:
    """One row per trial: its status, its last result and its whole config.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.

    Returns:
        A frame with ``trial_id``, ``status`` and ``training_iteration``, then a column per metric
        (the last row's value; NaN where a trial did not report it), then a ``config/...`` column
        per setting, nested ones joined by ``/``. Trials without a result have
        ``training_iteration`` 0. ``frame.attrs["varying"]`` lists the config columns that the
        search varied, in the order of the config.

    Raises:
        ResultsError: The folder holds no sweep.
    """
    sweep = load_sweep(results)
    rows = []
    for trial in sweep.trials:
        last = dict(trial.frame.iloc[-1]) if len(trial.frame) else {ITERATION: 0}
        row = {"trial_id": trial.trial_id, "status": trial.status, ITERATION: int(last[ITERATION])}
        row.update({str(k): v for k, v in last.items() if k not in _OWN})
        row.update(flatten(trial.config, "config/"))
        rows.append(row)
    frame = pd.DataFrame(rows)
    names = [str(c) for c in frame.columns if c not in _OWN]
    metrics = [c for c in names if not c.startswith("config/")]
    settings = [c for c in names if c.startswith("config/")]
    frame = frame.loc[:, [*(c for c in _OWN if c in frame), *metrics, *settings]]
    frame.attrs["varying"] = varying(sweep.trials)
    return frame


def curves_frame(
    results: ResultGrid | Sweep | str | Path, metrics: Iterable[str] | None = None
) -> pd.DataFrame:
    """The learning curves in long form: one row per trial and training iteration.

    What a resumed trial wrote twice is there once, as the run that counts wrote it.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.
        metrics: The metrics to keep (default: all).

    Returns:
        A frame with ``trial_id``, ``training_iteration``, ``num_env_steps_sampled_lifetime`` where
        it was reported, the metrics, and a ``config/...`` column per setting that varies between
        trials or, under PBT, within one (then with the value that the row was trained with).

    Raises:
        ResultsError: The folder holds no sweep, or no trial reported one of ``metrics``.
    """
    sweep = load_sweep(results)
    wanted = None if metrics is None else list(metrics)
    for metric in wanted or ():
        sweep.require_metric(metric)
    names = varying(sweep.trials)
    frames = []
    for trial in sweep.trials:
        frame = trial.frame.drop(columns="trial_id", errors="ignore")
        if wanted is not None:
            keep = {ITERATION, "num_env_steps_sampled_lifetime", *wanted}
            frame = frame.loc[:, [c for c in frame if c in keep]]
        if not len(frame):
            continue
        head = pd.DataFrame({"trial_id": trial.trial_id}, index=frame.index)
        frames.append(pd.concat([head, frame, _row_settings(trial, names)], axis=1))
    if not frames:
        return pd.DataFrame(columns=["trial_id", ITERATION, *(wanted or ()), *names])
    curves = pd.concat(frames, ignore_index=True)
    first = [c for c in ("trial_id", ITERATION, "num_env_steps_sampled_lifetime") if c in curves]
    settings = [c for c in names if c in curves]
    middle = [c for c in curves if c not in first and c not in settings]
    return curves.loc[:, [*first, *middle, *settings]]


def varying(trials: Iterable[TrialRecord]) -> list[str]:
    """The ``config/...`` columns that the search set, or that differ between or within trials."""
    values: dict[str, set[str]] = {}
    searched: set[str] = set()
    configs = []
    for trial in trials:
        searched.update(f"config/{name}" for name in trial.searched)
        configs += [flatten(c, "config/") for c in (trial.row_configs or [trial.config])]
    for number, config in enumerate(configs):
        for name, value in config.items():
            # A setting that only some trials have differs too.
            seen = values.setdefault(name, {"<absent>"} if number else set())
            seen.add(json.dumps(value, sort_keys=True, default=str))
        for name in values.keys() - config.keys():
            values[name].add("<absent>")
    return [name for name, seen in values.items() if name in searched or len(seen) > 1]


def _row_settings(trial: TrialRecord, names: list[str]) -> pd.DataFrame:
    configs = trial.row_configs or [trial.config] * len(trial.frame)
    rows: list[dict[str, Any]] = []
    for number, config in enumerate(configs):
        if number and config == configs[number - 1]:
            rows.append(rows[-1])
            continue
        flat = flatten(config, "config/")
        rows.append({name: flat.get(name) for name in names})
    return pd.DataFrame(rows, index=trial.frame.index, columns=names)
