"""A sweep as tidy pandas frames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.records import ENV_STEPS, ITERATION, TrialRecord
from analysis.rows import flatten
from analysis.sources import are_several, load_sweeps

if TYPE_CHECKING:
    from analysis.records import Source

SWEEP = "sweep"
SECONDS = "time_total_s"
_OWN = (SWEEP, "trial_id", "status", ITERATION)
_AXES = (ITERATION, ENV_STEPS, SECONDS)


def trials_frame(results: Source | Sequence[Source]) -> pd.DataFrame:
    """One row per trial: its status, its last result and its whole config.

    Args:
        results: A ``ResultGrid``, the path of a sweep folder, or several; see `load_sweeps`.

    Returns:
        A frame with ``trial_id``, ``status`` and ``training_iteration``, then a column per metric
        (the last row's value; NaN where a trial did not report it), then a ``config/...`` column
        per setting, nested ones joined by ``/``. Trials without a result have
        ``training_iteration`` 0. ``frame.attrs["varying"]`` lists the config columns that the
        search varied, in the order of the config. Of several sweeps (a list, or a folder of
        sweeps) the first column is ``sweep``, and what differs between them varies too.

    Raises:
        ResultsError: The folder holds no sweep.
    """
    trials = list(named_trials(results))
    rows = []
    for head, trial in trials:
        last = dict(trial.frame.iloc[-1]) if len(trial.frame) else {ITERATION: 0}
        row = {**head, "status": trial.status, ITERATION: int(last[ITERATION])}
        row.update({str(k): v for k, v in last.items() if k not in _OWN})
        row.update(flatten(trial.config, "config/"))
        rows.append(row)
    frame = pd.DataFrame(rows)
    names = [str(c) for c in frame.columns if c not in _OWN]
    metrics = [c for c in names if not c.startswith("config/")]
    settings = [c for c in names if c.startswith("config/")]
    frame = frame.loc[:, [*(c for c in _OWN if c in frame), *metrics, *settings]]
    frame.attrs["varying"] = varying(trial for _, trial in trials)
    return frame


def curves_frame(
    results: Source | Sequence[Source], metrics: Iterable[str] | None = None
) -> pd.DataFrame:
    """The learning curves in long form: one row per trial and training iteration.

    What a resumed trial wrote twice is there once, as the run that counts wrote it.

    Args:
        results: A ``ResultGrid``, the path of a sweep folder, or several; see `load_sweeps`.
        metrics: The metrics to keep (default: all).

    Returns:
        A frame with ``trial_id``, ``training_iteration``, ``num_env_steps_sampled_lifetime`` and
        ``time_total_s`` (seconds of training) where they were reported, the metrics, and a
        ``config/...`` column per setting that varies between trials or, under PBT, within one (then
        with the value that the row was trained with). Of several sweeps (a list, or a folder of
        sweeps) the first column is ``sweep``.

    Raises:
        ResultsError: The folder holds no sweep, or a sweep of which no trial reported one of
            ``metrics``.
    """
    wanted = None if metrics is None else list(metrics)
    trials = list(named_trials(results, wanted or ()))
    names = varying(trial for _, trial in trials)
    frames = []
    for head, trial in trials:
        frame = trial.frame.drop(columns=[*head], errors="ignore")
        if wanted is not None:
            keep = {*_AXES, *wanted}
            frame = frame.loc[:, [c for c in frame if c in keep]]
        if not len(frame):
            continue
        first = pd.DataFrame(head, index=frame.index)
        frames.append(pd.concat([first, frame, _row_settings(trial, names)], axis=1))
    own = ["trial_id"] if not are_several(results) else [SWEEP, "trial_id"]
    if not frames:
        return pd.DataFrame(columns=[*own, ITERATION, *(wanted or ()), *names])
    curves = pd.concat(frames, ignore_index=True)
    begin = [c for c in (*own, *_AXES) if c in curves]
    settings = [c for c in names if c in curves]
    middle = [c for c in curves if c not in begin and c not in settings]
    return curves.loc[:, [*begin, *middle, *settings]]


def named_trials(
    results: Source | Sequence[Source], metrics: Iterable[str] = ()
) -> Iterator[tuple[dict[str, str], TrialRecord]]:
    """Each trial behind the columns that say which one it is.

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
