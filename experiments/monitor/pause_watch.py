"""Ends a sweep whose scheduler pauses trials of a function that reports no checkpoints.

A paused trial goes on from its checkpoint; one without begins anew each time, and would never end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray import tune

from experiments.errors import SweepError

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class PauseWatch(tune.Callback):
    """Sees that every trial that is saved has a checkpoint; a function is asked only by a pause.

    Args:
        trainable: As the spec names it.
        scheduler: That pauses.
    """

    def __init__(self, trainable: str, scheduler: str) -> None:
        self._message = (
            f"scheduler: {scheduler} pauses trials and goes on from their checkpoints, and "
            f"{trainable} reported none: report one with each result, tune.report(metrics, "
            "checkpoint=…), or use scheduler: asha, median_stopping or fifo"
        )

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        if trial.checkpoint is None:
            raise SweepError(self._message)
