"""Several objectives: the trials of which no other is better in all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames.frames import varying
from analysis.names import ENV_STEPS, sign_of
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError, flatten

if TYPE_CHECKING:
    from ray.tune import ResultGrid

Objectives = Sequence[tuple[str, str]]
"""Metric and mode ("max" or "min") of each objective."""


def pareto_front(
    results: ResultGrid | Sweep | str | Path, objectives: Objectives, *, whole: bool = False
) -> pd.DataFrame:
    """Return the Pareto-optimal trials: no other is as good in every objective and better in one.

    A trial counts with its last result, as in the search, if it ended and all objectives are finite
    there.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        objectives: Metric and mode of each, two or more.
        whole: Keep the other trials that count, too.

    Returns:
        A frame with `trial_id`, `optimal`, a column per metric,
        `num_env_steps_sampled_lifetime` and a `config/...` column per hyperparameter that
        varies: the optimal trials first, each part from the best in the first objective on.
        `attrs` holds `objectives` and `sweep`.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported one of the metrics, a mode is
            unknown, or there are fewer than two objectives.
    """
    sweep = load_sweep(results)
    if len(objectives) < 2:
        raise ResultsError(f"a Pareto front takes two objectives or more, not {len(objectives)}")
    signs = np.array([sign_of(mode) for _, mode in objectives])
    metrics = [metric for metric, _ in objectives]
    for metric in metrics:
        sweep.require_metric(metric)
    names = varying(sweep.trials)
    rows = [row for trial in sweep.trials if (row := _row(trial, metrics, names)) is not None]
    columns = dict.fromkeys(["trial_id", "optimal", *metrics, ENV_STEPS, *names])  # each once
    frame = pd.DataFrame(rows, columns=list(columns))
    frame["optimal"] = optimal_rows(signs * frame[metrics].to_numpy(dtype=float))
    order = frame.assign(_first=-signs[0] * frame[metrics[0]].astype(float))
    order = order.sort_values(["optimal", "_first"], ascending=[False, True], kind="stable")
    frame = frame.loc[order.index].reset_index(drop=True)
    if not whole:
        frame = frame[frame["optimal"]].reset_index(drop=True)
    frame.attrs.update(objectives=list(objectives), sweep=sweep.name)
    return frame


def _row(trial: TrialRecord, metrics: list[str], names: list[str]) -> dict[str, Any] | None:
    """Return the trial's line, or None if it does not count."""
    if trial.status != "TERMINATED" or not len(trial.frame):
        return None
    last = trial.frame.iloc[-1]
    values: list[float] = []
    for metric in metrics:
        value: Any = last.get(metric)
        if not isinstance(value, Number) or not math.isfinite(value):  # type: ignore[arg-type]
            return None
        values.append(float(value))  # type: ignore[arg-type]
    config = flatten(trial.config, "config/")
    return {
        "trial_id": trial.trial_id,
        "optimal": False,
        **dict(zip(metrics, values, strict=True)),
        ENV_STEPS: last.get(ENV_STEPS),
        **{name: config.get(name) for name in names},
    }


def optimal_rows(values: np.ndarray) -> np.ndarray:
    """Tell which rows no other dominates; `values` is `[rows, objectives]`, more is better."""
    at_least = (values[:, None] >= values[None]).all(axis=2)  # [i, j]: i is as good as j
    better = (values[:, None] > values[None]).any(axis=2)
    return np.logical_not((at_least & better).any(axis=0))
