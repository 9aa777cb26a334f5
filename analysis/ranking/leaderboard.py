"""Which trial was best: the leaderboard."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames.frames import varying
from analysis.names import ENV_STEPS, HOST, ITERATION, SECONDS, finite, sign_of
from analysis.ranking.order import Course, best_first
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError, flatten

if TYPE_CHECKING:
    from ray.tune import ResultGrid


def leaderboard(
    results: ResultGrid | Sweep | str | Path,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    top: int | None = None,
) -> pd.DataFrame:
    """Return the trials from best to worst, by the last finite value that each one reported.

    So do Tune (`scope="last"`), Optuna and ASHA, but where a trial ended without a finite value:
    it still counts with its last one here, and a report says so of a winner. The best value
    of a noisy curve would favour trials that report more often.

    NaN and infinite values never win; a trial without a finite value comes last and has no rank.
    Of equal values the one comes first that was reached in fewer environment steps; the whole rule
    is in `analysis.ranking.order`.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        metric: The flat name of the metric to rank by.
        mode: `"max"` or `"min"`.
        top: Keep only so many rows.

    Returns:
        A frame with `rank` (from 1), `trial_id`, `last` and `best` (values of `metric`),
        a `config/...` column per hyperparameter that varies, `status`, where trials shared
        processes `host` (the one that trained it last, counted from 0), `best_iteration`,
        `reached` (env steps at which the trial was first as good as `last`),
        `training_iteration`, `num_env_steps_sampled_lifetime` and `time_total_s` (seconds).
        `attrs` holds `metric` and `mode`.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported `metric`, or `mode` is
            unknown.
    """
    sweep = load_sweep(results)
    trials = ranked(sweep, metric, mode)
    if top is not None:
        if top < 1:
            raise ResultsError(f"top must be at least 1, not {top}")
        trials = trials[:top]
    names = varying(sweep.trials)
    hosted = bool(sweep.hosts)
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
            **({HOST: trial.host} if hosted else {}),
            "best_iteration": score.iteration,
            "reached": score.course.reached(sign_of(mode)) if score.found else None,
            ITERATION: trial.last(ITERATION),
            ENV_STEPS: trial.last(ENV_STEPS),
            SECONDS: trial.last(SECONDS),
        }
        rows.append(row)
    counts = ["rank", "best_iteration", "reached", ITERATION, ENV_STEPS]
    counts += [HOST] if hosted else []
    frame = pd.DataFrame(rows).astype(dict.fromkeys(counts, "Int64"))
    frame.attrs.update(metric=metric, mode=mode)
    return frame


class Score:
    """A trial's finite values of one metric: the last, the best, and where the best was."""

    def __init__(self, trial: TrialRecord, metric: str, sign: float) -> None:
        self._values = values = finite(trial.frame.get(metric))
        self._frame = trial.frame
        self.found = bool(len(values))
        self.best = self.last = float("nan")
        self.iteration: int | None = None
        if self.found:
            # The first of equal values: the iteration at which it got there.
            row = int(np.argmax(sign * values.to_numpy()))
            self.best = float(values.iloc[row])
            self.last = float(values.iloc[-1])
            self.iteration = int(trial.frame[ITERATION].loc[values.index].iloc[row])

    @cached_property
    def course(self) -> Course:
        """All of the values, with how far training had come at each."""
        rows = self._frame.loc[self._values.index]
        missing = pd.Series(np.nan, index=rows.index)
        steps = pd.to_numeric(rows.get(ENV_STEPS, missing), errors="coerce")
        return Course(self._values, steps, rows[ITERATION])


def ranked(sweep: Sweep, metric: str, mode: str) -> list[tuple[TrialRecord, Score]]:
    """Return all trials with their scores, best first; see `leaderboard`."""
    sweep.require_metric(metric)
    sign = sign_of(mode)
    scored = [(trial, Score(trial, metric, sign)) for trial in sweep.trials]
    return best_first(
        scored, mode, last=lambda item: item[1].last, course=lambda item: item[1].course
    )
