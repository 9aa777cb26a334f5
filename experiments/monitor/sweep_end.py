"""Failures of trials that are not theirs: nobody could go on, and each would fail in turn.

So the sweep ends in place of the trial, which stays as it was last saved: a resume goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.cluster.ray_watch import lost_ray
from experiments.disk_space import full_disk
from experiments.stop_signals import received
from experiments.trial_info import error_cause, trial_folder

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


def end_if_not_its_fault(trial: Trial) -> None:
    """End the sweep if a trial failed because of what it runs on.

    Raises:
        RuntimeError: Ray has died under it, or a disk is full.
        KeyboardInterrupt: A signal that ends the sweep has ended the trial's process, too.
    """
    if received():
        raise KeyboardInterrupt
    cause = lost_ray() or full_disk([error_cause(trial)], trial_folder(trial))
    if cause:
        raise RuntimeError(cause)
