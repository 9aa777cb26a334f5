"""Which trial was best: the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames import varying
from analysis.records import ENV_STEPS, ITERATION, Sweep, TrialRecord, load_sweep
from analysis.rows import ResultsError, flatten

if TYPE_CHECKING:
    from ray.tune import ResultGrid


def leaderboard(
    results: ResultGrid | Sweep | str | Path,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    top: int | None = None,
) -> pd.DataFrame:
    """The trials from best to worst, by the last finite value that each one reported.

    So do Tune (``scope="last"``), Optuna and ASHA, but where a trial ended without a finite value:
    it still counts with its last one here, and a report says so of a winner. The best value
    of a noisy curve would favour trials that report more often.

    NaN and infinite values never win; a trial without a finite value comes last and has no rank.
    Ties go to the better best value, then to the fewer environment steps.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.
        metric: The flat name of the metric to rank by.
        mode: ``"max"`` or ``"min"``.
        top: Keep only so many rows.

    Returns:
        A frame with ``rank`` (from 1), ``trial_id``, ``last`` and ``best`` (values of ``metric``),
        a ``config/...`` column per hyperparameter that varies, ``status``, ``best_iteration``,
        ``training_iteration``, ``num_env_steps_sampled_lifetime`` and ``time_total_s`` (seconds).
        ``attrs`` holds ``metric`` and ``mode``.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported ``metric``, or ``mode`` is
            unknown.
    """
    sweep = load_sweep(results)
    trials = ranked(sweep, metric, mode)
    if top is not None:
        if top < 1:
            raise ResultsError(f"top must be at least 1, not {top}")
        trials = trials[:top]
    names = varying(sweep.trials)
    rows = []
    for rank, (trial, score) in enumerate(trials, start=1):
        flat = flatten(trial.config, "config/")
        row: dict[str, Any] = {
            "rank": rank if score.found else None,
            "trial_id": trial.trial_id,
            "last": score.last,
            "best": score.best,
            # What a narrow screen shows of a wide frame is its beginning and its end.
            **{name: flat.get(name) for name in names},
            "status": trial.status,
            "best_iteration": score.iteration,
            ITERATION: _last(trial, ITERATION),
            ENV_STEPS: _last(trial, ENV_STEPS),
            "time_total_s": _last(trial, "time_total_s"),
        }
        rows.append(row)
    counts = dict.fromkeys(("rank", "best_iteration", ITERATION, ENV_STEPS), "Int64")
    frame = pd.DataFrame(rows).astype(counts)
    frame.attrs.update(metric=metric, mode=mode)
    return frame


class Score:
    """A trial's finite values of one metric: the last, the best, and where the best was."""

    def __init__(self, trial: TrialRecord, metric: str, sign: float) -> None:
        values = finite(trial.frame.get(metric))
        self.found = bool(len(values))
        self.best = self.last = float("nan")
        self.iteration: int | None = None
        if self.found:
            # The first of equal values: the iteration at which it got there.
            row = int(np.argmax(sign * values.to_numpy()))
            self.best = float(values.iloc[row])
            self.last = float(values.iloc[-1])
            self.iteration = int(trial.frame[ITERATION].loc[values.index].iloc[row])


def ranked(sweep: Sweep, metric: str, mode: str) -> list[tuple[TrialRecord, Score]]:
    """All trials with their scores, best first; see `leaderboard`."""
    sign = sign_of(mode)
    sweep.require_metric(metric)
    scored = [(trial, Score(trial, metric, sign)) for trial in sweep.trials]

    def key(item: tuple[TrialRecord, Score]) -> tuple[bool, float, float, float]:
        trial, score = item
        if not score.found:
            return (True, 0.0, 0.0, 0.0)
        steps = _last(trial, ENV_STEPS)
        return (False, -sign * score.last, -sign * score.best, np.inf if steps is None else steps)

    return sorted(scored, key=key)


def sign_of(mode: str) -> float:
    """1 for ``"max"``, -1 for ``"min"``.

    Raises:
        ResultsError: ``mode`` is neither.
    """
    if mode not in ("max", "min"):
        raise ResultsError(f"mode must be 'max' or 'min', not {mode!r}")
    return 1.0 if mode == "max" else -1.0


def finite(values: pd.Series | None) -> pd.Series:
    """The finite numbers of a column, with their index; what is no number counts as missing."""
    if values is None:
        return pd.Series(dtype=float)
    if values.dtype != float:  # the usual case is spared: a report asks thousands of times
        values = pd.to_numeric(values, errors="coerce").astype(float)
    known = np.isfinite(values.to_numpy())
    return values if known.all() else values[known]


def _last(trial: TrialRecord, name: str) -> Any:
    values = finite(trial.frame.get(name))
    return values.iloc[-1] if len(values) else None
