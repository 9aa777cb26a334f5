"""The best trial and the best checkpoint of a sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import sign_of
from analysis.ranking.leaderboard import ranked
from analysis.ranking.order import number
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from ray.tune import ResultGrid


@dataclass(frozen=True)
class BestCheckpoint:
    """A checkpoint and where it comes from.

    Attributes:
        path: The checkpoint's folder.
        trial: The trial that wrote it.
        value: The metric when it was taken.
        metrics: The whole result row of that moment.
        sweep: The sweep's name.
    """

    path: Path
    trial: TrialRecord
    value: float
    metrics: dict[str, Any]
    sweep: str


def best_trial(
    results: ResultGrid | Sweep | str | Path, metric: str = "episode_return_mean", mode: str = "max"
) -> TrialRecord:
    """Return the first trial of the leaderboard: the one whose last finite value is best.

    Raises:
        ResultsError: No trial reported a finite value of `metric`.
    """
    sweep = load_sweep(results)
    trial, score = ranked(sweep, metric, mode)[0]
    if not score.found:
        raise ResultsError(f"{sweep.path}: every value of {metric!r} is NaN or infinite")
    return trial


def best_checkpoint(
    results: ResultGrid | Sweep | str | Path, metric: str = "episode_return_mean", mode: str = "max"
) -> BestCheckpoint:
    """Return the best checkpoint of the first trial of the leaderboard.

    The leaderboard goes by the trials' last values; within the trial the checkpoint is taken, of
    those that are still there, whose own result was best. It need not be the latest one. Ties go to
    the checkpoint with more training. Trials without a checkpoint whose value of `metric` is
    finite are passed over.

    Args:
        results: A `ResultGrid` or the path of a sweep folder (also one that was moved).
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.

    Raises:
        ResultsError: There is no checkpoint, or none whose value of `metric` is known and finite.
    """
    sweep = load_sweep(results)
    sign = sign_of(mode)
    for trial, _ in ranked(sweep, metric, mode):
        best: BestCheckpoint | None = None
        for checkpoint in trial.checkpoints:
            value = number(checkpoint.metrics.get(metric))
            if not math.isfinite(value):
                continue
            if best is None or sign * value >= sign * best.value:
                best = BestCheckpoint(checkpoint.path, trial, value, checkpoint.metrics, sweep.name)
        if best is not None:
            return best
    raise ResultsError(_why_none(sweep, metric))


def _why_none(sweep: Sweep, metric: str) -> str:
    known = sum(len(trial.checkpoints) for trial in sweep.trials)
    unplaced = [path for trial in sweep.trials for path in trial.unplaced]
    if known:
        return f"{sweep.path}: none of its {known} checkpoints has a finite value of {metric!r}"
    if unplaced:
        return (
            f"{sweep.path}: its checkpoints do not say at which iteration they were taken"
            f" (for example {unplaced[0]}); pass the ResultGrid instead of the folder"
        )
    return f"{sweep.path}: it has no checkpoints; let the sweep write them regularly or at the end"
