"""A sweep that survives being killed at any moment.

Tune saves a sweep's state at most every 10 seconds, leaves the scheduler's state out, and copies it
in a way that a kill can tear. `durable` closes the three gaps:

- the sweep is saved within about 0.1 s of every trial that is made, starts, ends or fails,
- the scheduler's state (ASHA's rungs, ...) is saved and restored with it, and at once where it put
  a trial elsewhere (`experiments.schedulers.acting_scheduler`),
- for sweeps in a local folder each save is a transaction (`experiments.durability.snapshot`), and
  checkpoints are noted when they are made (`experiments.durability.checkpoint_journal`). A remote
  storage path (`s3://...`) keeps Tune's own copy, whose files are each replaced whole.

So a trial's last row is in the sweep's folder only if the saved state has it as finished.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from experiments.durability import checkpoint_journal
from experiments.durability.resuming import Resume
from experiments.durability.scheduler import durable_copy
from experiments.durability.snapshot import SnapshotSyncer
from experiments.durability.state_file import StateWriter
from experiments.internals.tune import copy_saves_with, storage_of_saves
from experiments.monitor.failure_guard import FailureGuard
from experiments.schedulers.acting_scheduler import ActingScheduler, acting
from experiments.schedulers.state import dump_state
from experiments.sweep.actor_reuse import replace_failed_resets
from experiments.trial_info import PRUNED, folder_name

if TYPE_CHECKING:
    from ray.tune import Checkpoint
    from ray.tune.execution.tune_controller import TuneController

    from experiments.durability.resumption import Changes

logger = logging.getLogger(__name__)

_MIN_PERIOD_S = 0.1
# A save waits until this many times the time that the last one took has passed: so saving takes at
# most 1/6 of the driver's time, or 1/5 where trials end faster than that.
_SPACING = 5.0
_SPACING_AFTER_END = 4.0
_RETRY_S = 2.0  # after a save that failed, e.g. on a full disk


def durable(scheduler: TrialScheduler) -> tuple[TrialScheduler, SweepKeeper]:
    """Make a sweep survive a kill of its driver.

    Both returned objects go into the same Tuner; the callback comes first in the list, so that the
    loggers after it see the key `pruned` that it adds to a trial's last result.

    Args:
        scheduler: Any Tune scheduler; it is not changed.

    Returns:
        A scheduler that behaves as `scheduler` does (and is an instance of its class), and the
        callback that saves the sweep.

    Example:
        >>> scheduler, keeper = durable(ASHAScheduler(max_t=100))  # doctest: +SKIP
        >>> tune.Tuner(
        ...     PPO,
        ...     tune_config=tune.TuneConfig(scheduler=scheduler, ...),
        ...     run_config=tune.RunConfig(callbacks=[keeper, ...]),
        ... )  # doctest: +SKIP
    """
    kept = durable_copy(scheduler)
    keeper = SweepKeeper(kept)
    kept.__dict__["_keeper"] = keeper
    return kept, keeper


class SweepKeeper(tune.Callback):
    """Saves the sweep's state, the scheduler's included, whenever something happened to a trial.

    It also ends a sweep that cannot succeed, see `experiments.monitor.failure_guard`.

    Args:
        scheduler: The scheduler made by `durable`.
    """

    def __init__(self, scheduler: TrialScheduler) -> None:
        self.scheduler = scheduler
        self._added: set[str] = set()  # trials that the scheduler knows
        self._pruned: set[str] = set()
        self._changes: Changes | None = None  # what a resume is to change
        self._resume: Resume | None = None
        self._controller: TuneController | None = None
        self._guard: FailureGuard | None = None
        self._syncer: SnapshotSyncer | None = None
        self._in_save: set[str] = set()  # trials, with their folders, in the last save
        self._dirty = True  # something happened to a trial since the last save
        self._trial_ended = False  # namely, it ended
        self._save_failed = False  # the last one
        self._last_save = float("-inf")
        self._save_time_s = 0.0

    def __getstate__(self) -> dict[str, Any]:
        parts = ("_controller", "_guard", "_syncer", "_changes", "_resume")  # of this process
        return {**self.__dict__, **dict.fromkeys(parts), "_last_save": float("-inf")}

    @property
    def _acting(self) -> ActingScheduler:
        return acting(self.scheduler)

    # -- state -----------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        return {"scheduler": self._scheduler_state(), "added": sorted(self._added)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._added = set(state["added"])
        self._resume = Resume(
            self.scheduler, state["scheduler"], self._added, self._pruned, self._changes
        )

    def _scheduler_state(self) -> bytes | None:
        if self._resume is not None and self._resume.saved is not None:
            return self._resume.saved
        try:
            return dump_state(self.scheduler)
        except Exception as error:  # e.g. a scheduler that holds a lock: resume without its state
            if self._last_save == float("-inf"):
                logger.warning(
                    "The state of the scheduler %s cannot be saved (%s): a resumed sweep starts "
                    "with a new scheduler.",
                    type(self.scheduler).__name__,
                    error,
                )
            return None

    # -- told by the scheduler -------------------------------------------------------------------

    def expects_add(self, trial: Trial) -> bool:
        """Tell whether the scheduler is to be told of this trial now.

        Not of one that its restored state already holds: it would lose what it knew of it.
        """
        self._dirty = True
        if self._resume is not None and self._resume.knows(trial):
            return False
        self._added.add(trial.trial_id)
        return self._resume is None or not self._resume.defers(trial)

    def forget(self, trial: Trial) -> None:
        """Note that the scheduler gave up a trial; it is told again if the trial recovers."""
        self._dirty = True
        self._added.discard(trial.trial_id)
        self._pruned.discard(trial.trial_id)  # if it was to be ended, it failed before it was

    def apply(self, changes: Changes) -> None:
        """Set what the resume is to change; call it before Tune's first step."""
        self._changes = changes

    def change(self, controller: TuneController, trial: Trial) -> None:
        """Bring a saved trial in line with the changes while Tune takes it over."""
        if self._resume is not None:
            self._resume.change(controller, trial)

    def note_pruned(self, trial: Trial) -> None:
        """Note that the scheduler ended a trial before its time."""
        self._pruned.add(trial.trial_id)

    def attach(self, controller: TuneController) -> None:
        """Take hold of Tune's loop at its first step; complete a resume."""
        if self._controller is controller:
            return
        self._controller = controller
        self._guard = FailureGuard(controller)
        replace_failed_resets(controller)
        self._take_over_sync(controller)
        if self._resume is not None:
            self._resume.complete(controller, has_journal=self._syncer is not None)

    def _take_over_sync(self, controller: TuneController) -> None:
        storage = storage_of_saves(controller)
        if storage.storage_filesystem.type_name != "local":
            return
        self._syncer = SnapshotSyncer(
            storage.experiment_driver_staging_path, held=self._unfinished_folders
        )
        # The journal makes saves for the number of checkpoints needless.
        copy_saves_with(controller, self._syncer)
        StateWriter(controller)

    # -- Tune's hooks ----------------------------------------------------------------------------

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._dirty = True
        self._touch(trial)

    on_trial_recover = on_trial_start

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        self._dirty = self._trial_ended = True
        self._touch(trial)
        if result := trial.run_metadata.last_result:  # a function has returned: no row says so
            result.setdefault(PRUNED, trial.trial_id in self._pruned)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._dirty = self._trial_ended = True
        self._touch(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        self._touch(trial)  # the loggers after this callback write there
        if result.get("done"):
            result.setdefault(PRUNED, trial.trial_id in self._pruned)

    def on_checkpoint(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        checkpoint: Checkpoint,
        **_: Any,
    ) -> None:
        if self._syncer is None:
            self._dirty = True
            return
        # A checkpoint that is noted has its rows on disk, and a last row that is on disk has its
        # checkpoint noted. From a trial that the saved state lacks nothing may be on disk.
        steps = [self._save_rows, self._note_checkpoint]
        for step in reversed(steps) if (trial.last_result or {}).get("done") else steps:
            step(trial, checkpoint)

    def _touch(self, trial: Trial) -> None:
        folder = folder_name(trial)
        if self._syncer is not None and folder:
            self._syncer.touch(folder)

    def _save_rows(self, trial: Trial, checkpoint: Checkpoint) -> None:
        storage, folder = trial.storage, folder_name(trial)
        if self._syncer is None or trial.trial_id not in self._in_save or not (storage and folder):
            self._dirty = True
            return
        saved = self._syncer.sync_trial(
            storage.experiment_driver_staging_path, storage.experiment_fs_path, folder
        )
        self._dirty = self._dirty or not saved

    def _note_checkpoint(self, trial: Trial, checkpoint: Checkpoint) -> None:
        try:
            checkpoint_journal.append(trial, checkpoint.path, self._acting.trial_state(trial))
        except OSError as error:
            logger.error("Checkpoint %s could not be noted: %s", checkpoint.path, error)

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        # The one place where no event is half handled: trials, searcher and scheduler agree.
        if self._controller is None:
            return
        if self._guard is not None and self._guard.is_doomed:
            self._save(self._controller)
            self._guard.stop()
        if self._resume is not None and self._resume.start_waiting(self._controller):
            self._dirty = True
        acted = self._acting.has_acted
        if not (self._dirty or acted) or time.monotonic() - self._last_save < self._period_s(acted):
            return
        start = time.monotonic()
        self._trial_ended = False
        self._acting.has_acted = False
        self._dirty = self._save_failed = not self._save(self._controller)
        if not self._save_failed:
            self._in_save = {trial.trial_id for trial in trials if folder_name(trial)}
        self._last_save = time.monotonic()
        self._save_time_s = self._last_save - start

    def _period_s(self, acted: bool) -> float:
        """How long after the last save the next one may be; at once where the scheduler acted."""
        if self._save_failed:
            return max(_RETRY_S, _SPACING * self._save_time_s)
        spacing = _SPACING_AFTER_END if self._trial_ended else _SPACING
        return 0 if acted else max(_MIN_PERIOD_S, spacing * self._save_time_s)

    def _save(self, controller: TuneController) -> bool:
        """Save the sweep's state; returns whether it is in the sweep's folder now."""
        try:
            controller.checkpoint(force=True)
        except Exception as error:
            if not self._save_failed:
                logger.error("The sweep's state could not be saved: %s", error)
            return False
        return self._syncer is None or not self._syncer.failed

    def _unfinished_folders(self) -> set[str]:
        """Return the folders of trials with their last row but not yet their last checkpoint.

        A kill between the two would leave a trial that looks finished but has no policy.
        """
        if self._controller is None:
            return set()
        return {
            folder
            for trial in self._controller.get_live_trials()
            if trial.is_saving and (trial.run_metadata.last_result or {}).get("done")
            if (folder := folder_name(trial))
        }
