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

import copy
import logging
import time
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.logger import LoggerCallback
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler

from analysis.results.rows import flatten
from experiments.durability import checkpoint_journal, resumption
from experiments.durability.actor_reuse import replace_failed_resets
from experiments.durability.snapshot import SnapshotSyncer, reconcile
from experiments.durability.state_file import StateWriter
from experiments.monitor.episode_watch import is_unknown
from experiments.monitor.failure_guard import FailureGuard
from experiments.monitor.sweep_end import end_if_not_its_fault
from experiments.schedulers.acting_scheduler import ActingScheduler
from experiments.schedulers.state import (
    dump_state,
    extend_rungs,
    forget_results,
    forget_stop,
    load_state,
    take_back,
)
from experiments.trial_info import PRUNED, read_json_lines, trial_folder

if TYPE_CHECKING:
    from ray.tune import Checkpoint
    from ray.tune.execution.tune_controller import TuneController

    from experiments.durability.resumption import Changes

__all__ = ["SweepKeeper", "durable", "reconcile"]

logger = logging.getLogger(__name__)

_MIN_PERIOD_S = 0.1
# A save waits until this many times the time that the last one took has passed: so saving takes at
# most 1/6 of the driver's time, or 1/5 where trials end faster than that.
_SPACING = 5.0
_SPACING_AFTER_END = 4.0
_RETRY_S = 2.0  # after a save that failed, e.g. on a full disk


def durable(scheduler: TrialScheduler) -> tuple[TrialScheduler, SweepKeeper]:
    """Makes a sweep survive a kill of its driver.

    Both returned objects go into the same Tuner; the callback comes first in the list, so that the
    loggers after it see the key `pruned` that it adds to a trial's last result.

    Args:
        scheduler: any Tune scheduler; it is not changed.

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
    kept: TrialScheduler = _new_durable(type(scheduler))
    kept.__dict__.update(scheduler.__dict__)
    keeper = SweepKeeper(kept)
    kept.__dict__["_keeper"] = keeper
    return kept, keeper


class _Durable:
    """What `durable` puts in front of a scheduler's class: it tells the keeper what happens."""

    _keeper: SweepKeeper

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        self._keeper.change(_inner(tune_controller), trial)
        if self._keeper.expects_add(trial):
            super().on_trial_add(tune_controller, trial)  # type: ignore[misc]

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        end_if_not_its_fault(trial)
        self._keeper.forget(trial)
        super().on_trial_error(tune_controller, trial)  # type: ignore[misc]

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        if is_unknown(result, getattr(self, "_metric", None)) and not self._at_end(result):
            return TrialScheduler.CONTINUE  # it is judged once there is something to judge
        decision: str = super().on_trial_result(tune_controller, trial, result)  # type: ignore[misc]
        if decision == TrialScheduler.STOP and not self._at_end(result):
            self._keeper.note_pruned(trial)
        return decision

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        # Every step of Tune's loop comes by here, after new trials were made and before any starts.
        self._keeper.attach(_inner(tune_controller))
        return super().choose_trial_to_run(tune_controller)  # type: ignore[misc]

    def _at_end(self, result: dict[str, Any]) -> bool:
        """Tells whether the scheduler ended a trial because it had run its full time."""
        limit = getattr(self, "_max_t", None)
        spent = result.get(getattr(self, "_time_attr", ""))
        return limit is not None and spent is not None and spent >= limit

    def __reduce__(self) -> tuple[Any, ...]:
        return _new_durable, (type(self).__mro__[2],), self.__dict__


def _inner(controller: Any) -> TuneController:
    """The controller in the wrapper that Tune shows to schedulers."""
    found: TuneController = getattr(controller, "_tune_controller", controller)
    return found


_durable_classes: dict[type, type] = {}


def _new_durable(base: type) -> Any:
    """Returns an empty durable instance of `base`, of the one durable class made for it."""
    if base not in _durable_classes:
        attributes = {"__doc__": base.__doc__, "__module__": base.__module__}
        _durable_classes[base] = type(base.__name__, (_Durable, base), attributes)
    return object.__new__(_durable_classes[base])


class SweepKeeper(tune.Callback):
    """Saves the sweep's state, the scheduler's included, whenever something happened to a trial.

    It also ends a sweep that cannot succeed, see `experiments.monitor.failure_guard`.

    Args:
        scheduler: the scheduler made by `durable`.
    """

    def __init__(self, scheduler: TrialScheduler) -> None:
        self.scheduler = scheduler
        self._resuming = False  # between set_state() and Tune's first step
        self._saved: bytes | None = None  # the scheduler's state, until trials exist to refer to
        self._added: set[str] = set()  # trials that the scheduler knows
        self._restored: set[str] = set()  # of these, those it will be told of again
        self._deferred: list[Trial] = []  # new trials, made before the state could be restored
        self._pruned: set[str] = set()
        self._changes: Changes | None = None  # what this resume is to change
        self._waiting: list[Trial] = []  # trials that go on once there is room for them
        self._criteria: dict[str, dict[str, float]] = {}  # of unfinished trials, before the resume
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
        of_process = {"_controller": None, "_guard": None, "_syncer": None, "_changes": None}
        empty: dict[str, Any] = {"_waiting": [], "_criteria": {}}
        return {**self.__dict__, **of_process, **empty, "_last_save": float("-inf")}

    # -- state -----------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        return {"scheduler": self._scheduler_state(), "added": sorted(self._added)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._resuming = True
        self._saved = state["scheduler"]
        self._added = set(state["added"])
        self._restored = set(self._added) if self._saved is not None else set()

    def _scheduler_state(self) -> bytes | None:
        if self._saved is not None:
            return self._saved
        try:
            return dump_state(self.scheduler)
        except Exception as error:  # e.g. a scheduler that holds a lock: resume without its state
            if self._last_save == float("-inf"):
                logger.warning(
                    "The state of the scheduler %s cannot be saved (%s): a resumed sweep starts "
                    "it anew.",
                    type(self.scheduler).__name__,
                    error,
                )
            return None

    # -- told by the scheduler -------------------------------------------------------------------

    def expects_add(self, trial: Trial) -> bool:
        """Tells whether the scheduler is to be told of this trial now.

        Not of one that its restored state already holds: it would lose what it knew of it.
        """
        self._dirty = True
        if trial.trial_id in self._restored:
            self._restored.remove(trial.trial_id)
            return False
        self._added.add(trial.trial_id)
        if self._saved is not None:
            self._deferred.append(trial)
            return False
        return True

    def forget(self, trial: Trial) -> None:
        """Notes that the scheduler gave up a trial; it is told again if the trial recovers."""
        self._dirty = True
        self._added.discard(trial.trial_id)
        self._pruned.discard(trial.trial_id)  # if it was to be ended, it failed before it was

    def apply(self, changes: Changes) -> None:
        """Sets what the resume is to change; call it before Tune's first step."""
        self._changes = changes

    def change(self, controller: TuneController, trial: Trial) -> None:
        """Brings a saved trial in line with the changes while Tune takes it over."""
        changes = self._changes
        if changes is None or not self._resuming:
            return
        if trial.trial_id in changes.reopened:
            self._waiting.append(trial)
            if len(self._waiting) <= changes.at_once:
                # Tune sorts the trial in by its status after this call.
                trial.set_status(Trial.PENDING)
                controller._live_trials.add(trial)
        elif trial.trial_id in changes.unfinished:
            self._criteria[trial.trial_id] = trial.stopping_criterion
            trial.stopping_criterion = dict(changes.stop)
            trial.invalidate_json_state()

    def note_pruned(self, trial: Trial) -> None:
        """Notes that the scheduler ended a trial before its time."""
        self._pruned.add(trial.trial_id)

    def attach(self, controller: TuneController) -> None:
        """Takes hold of Tune's loop at its first step; completes a resume."""
        if self._controller is controller:
            return
        self._controller = controller
        self._guard = FailureGuard(controller)
        replace_failed_resets(controller)
        self._take_over_sync(controller)
        if self._resuming:
            self._resuming = False
            self._restore_scheduler(controller)
            for trial in controller.get_trials():
                if not trial.is_finished() and trial not in self._waiting:
                    self._resume_trial(controller, trial)
            self._reopen_trials(controller)
            self._leave_at_rest(controller)

    def _leave_at_rest(self, controller: TuneController) -> None:
        """Trials that wait for others at a barrier stay there: Tune starts all that are pending."""
        scheduler = self.scheduler
        if not isinstance(scheduler, ActingScheduler):
            return
        for trial in controller.get_trials():
            if trial.status == Trial.PENDING and scheduler.is_at_rest(trial):
                controller._set_trial_status(trial, Trial.PAUSED)

    def _take_over_sync(self, controller: TuneController) -> None:
        manager = controller._checkpoint_manager
        storage = manager._storage
        if storage.storage_filesystem.type_name != "local":
            return
        # A copy, as trials share the original with their workers.
        manager._storage = copy.copy(storage)
        manager._storage.syncer = self._syncer = SnapshotSyncer(
            storage.experiment_driver_staging_path, held=self._unfinished_folders
        )
        StateWriter(controller)
        # Tune would save after every `num_to_keep` checkpoints of a trial, and warn that it does
        # so too often; the journal makes that needless.
        manager._sync_every_n_trial_checkpoints = None

    def _restore_scheduler(self, controller: TuneController) -> None:
        saved, self._saved = self._saved, None
        if saved is None:
            return
        trials = {trial.trial_id: trial for trial in controller.get_trials()}
        to_add = self._deferred
        try:
            load_state(self.scheduler, saved, trials)
        except Exception as error:  # e.g. pickled by another version
            logger.warning("The scheduler's state is lost (%s): it starts anew.", error)
            to_add = list(trials.values())
        self._deferred = []
        for trial in to_add:
            self.scheduler.on_trial_add(controller._wrapped(), trial)

    def _resume_trial(self, controller: TuneController, trial: Trial) -> None:
        if self._syncer is None or not _folder_name(trial):
            return  # remote storage, or it never started
        forget_stop(self.scheduler, trial)
        saved = (trial.run_metadata.last_result or {}).get("training_iteration", 0)
        newest = checkpoint_journal.adopt(trial)
        if newest is None:
            return
        self._replay(controller, trial, saved, newest.result.get("training_iteration", 0))
        if newest.is_new:
            trial.update_last_result({**newest.result, "config": trial.config})
            if newest.scheduler and isinstance(self.scheduler, ActingScheduler):
                self.scheduler.set_trial_state(trial, newest.scheduler)
        if self._goes_on(trial, newest.result):
            checkpoint_journal.reopen(trial)
        elif newest.result.get("done"):
            self._finish(controller, trial, newest.result)

    def _goes_on(self, trial: Trial, result: dict[str, Any]) -> bool:
        before = self._criteria.get(trial.trial_id)
        return before is not None and resumption.goes_on(result, before, trial.stopping_criterion)

    def _reopen_trials(self, controller: TuneController) -> None:
        """Prepares the trials that had ended and go on, but those that ASHA does not let."""
        changes = self._changes
        if changes is None:
            return
        extend_rungs(self.scheduler, changes.stop)
        waiting, self._waiting = self._waiting, []
        for trial in waiting:
            if self._syncer is not None and trial.trial_id not in changes.restarted:
                checkpoint_journal.adopt(trial)
            resumption.reopen(trial, changes)
            if trial.trial_id in changes.restarted:
                forget_results(self.scheduler, trial)
            elif trial.trial_id in changes.longer and not take_back(self.scheduler, trial):
                self._prune(controller, trial)
            elif trial.is_finished():  # there is no room for it yet
                self._waiting.append(trial)
            controller._mark_trial_to_checkpoint(trial)

    def _prune(self, controller: TuneController, trial: Trial) -> None:
        """Leaves a finished trial ended that is too bad for the longer budget."""
        self._pruned.add(trial.trial_id)
        trial.run_metadata.last_result = {**trial.last_result, PRUNED: True}
        controller.search_alg.on_trial_complete(trial.trial_id, result=flatten(trial.last_result))
        controller._callbacks.on_trial_complete(
            iteration=controller._iteration, trials=controller.get_trials(), trial=trial
        )
        controller._set_trial_status(trial, Trial.TERMINATED)
        controller._live_trials.discard(trial)

    def _start_waiting(self, controller: TuneController) -> None:
        """Starts trials that go on as others end, as many as may run at a time."""
        assert self._changes is not None
        states = (controller._pending_trials, controller._running_trials, controller._paused_trials)
        room = self._changes.max_concurrent - sum(map(len, states))
        for trial in self._waiting[: max(0, room)]:
            self._waiting.remove(trial)
            controller._set_trial_status(trial, Trial.PENDING)
            controller._live_trials.add(trial)
            controller._mark_trial_to_checkpoint(trial)
            self._dirty = True

    def _replay(self, controller: TuneController, trial: Trial, after: int, until: int) -> None:
        """Tells the scheduler of results between the saved state and the adopted checkpoint.

        Only one that merely takes note of results, as ASHA does; PBT and HyperBand act on them.
        """
        scheduler = getattr(self.scheduler, "_base_scheduler", self.scheduler)
        if not isinstance(scheduler, (AsyncHyperBandScheduler, MedianStoppingRule)):
            return
        for row in read_json_lines(trial_folder(trial) / "result.json"):
            if after < row.get("training_iteration", 0) <= until:
                after = row["training_iteration"]  # each once: a resumed trial repeats rows
                scheduler.on_trial_result(controller._wrapped(), trial, flatten(row))
                forget_stop(scheduler, trial)
        # What it would decide now is of no account: the trial had gone on.
        self._pruned.discard(trial.trial_id)

    def _finish(self, controller: TuneController, trial: Trial, result: dict[str, Any]) -> None:
        """Ends a trial whose last checkpoint was made, but whose end was not saved any more."""
        trial.update_last_result({**result, "config": trial.config})
        flat = flatten(trial.last_result)
        told = {"iteration": controller._iteration, "trials": controller.get_trials()}
        rows = read_json_lines(trial_folder(trial) / "result.json")
        written = bool(rows) and bool(rows[-1].get("done"))
        for callback in controller._callbacks._callbacks:
            if not (written and isinstance(callback, LoggerCallback)):  # they add to files
                callback.on_trial_result(**told, trial=trial, result=trial.last_result)
        self.scheduler.on_trial_complete(controller._wrapped(), trial, flat)
        controller.search_alg.on_trial_complete(trial.trial_id, result=flat)
        controller._callbacks.on_trial_complete(**told, trial=trial)
        controller._set_trial_status(trial, Trial.TERMINATED)
        controller._live_trials.discard(trial)
        controller._mark_trial_to_checkpoint(trial)

    # -- Tune's hooks ----------------------------------------------------------------------------

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._dirty = True
        self._touch(trial)

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

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._dirty = True
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
        folder = _folder_name(trial)
        if self._syncer is not None and folder:
            self._syncer.touch(folder)

    def _save_rows(self, trial: Trial, checkpoint: Checkpoint) -> None:
        storage, folder = trial.storage, _folder_name(trial)
        if self._syncer is None or trial.trial_id not in self._in_save or not (storage and folder):
            self._dirty = True
            return
        saved = self._syncer.sync_trial(
            storage.experiment_driver_staging_path, storage.experiment_fs_path, folder
        )
        self._dirty = self._dirty or not saved

    def _note_checkpoint(self, trial: Trial, checkpoint: Checkpoint) -> None:
        scheduler = self.scheduler
        known = scheduler.trial_state(trial) if isinstance(scheduler, ActingScheduler) else None
        try:
            checkpoint_journal.append(trial, checkpoint.path, known)
        except OSError as error:
            logger.error("Checkpoint %s could not be noted: %s", checkpoint.path, error)

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        # The one place where no event is half handled: trials, searcher and scheduler agree.
        if self._controller is None:
            return
        if self._guard is not None and self._guard.is_doomed:
            self._save(self._controller)
            self._guard.stop()
        if self._waiting:
            self._start_waiting(self._controller)
        scheduler = self.scheduler
        acted = isinstance(scheduler, ActingScheduler) and scheduler.has_acted
        if not (self._dirty or acted) or time.monotonic() - self._last_save < self._period_s(acted):
            return
        start = time.monotonic()
        self._trial_ended = False
        if isinstance(scheduler, ActingScheduler):
            scheduler.has_acted = False
        self._dirty = self._save_failed = not self._save(self._controller)
        if not self._save_failed:
            self._in_save = {trial.trial_id for trial in trials if _folder_name(trial)}
        self._last_save = time.monotonic()
        self._save_time_s = self._last_save - start

    def _period_s(self, acted: bool) -> float:
        """How long after the last save the next one may be; at once where the scheduler acted."""
        if self._save_failed:
            return max(_RETRY_S, _SPACING * self._save_time_s)
        spacing = _SPACING_AFTER_END if self._trial_ended else _SPACING
        return 0 if acted else max(_MIN_PERIOD_S, spacing * self._save_time_s)

    def _save(self, controller: TuneController) -> bool:
        """Saves the sweep's state; returns whether it is in the sweep's folder now."""
        try:
            controller.checkpoint(force=True)
        except Exception as error:
            if not self._save_failed:
                logger.error("The sweep's state could not be saved: %s", error)
            return False
        return self._syncer is None or not self._syncer.failed

    def _unfinished_folders(self) -> set[str]:
        """Returns the folders of trials with their last row but not yet their last checkpoint.

        A kill between the two would leave a trial that looks finished but has no policy.
        """
        if self._controller is None:
            return set()
        return {
            folder
            for trial in self._controller.get_live_trials()
            if trial.is_saving and (trial.run_metadata.last_result or {}).get("done")
            if (folder := _folder_name(trial))
        }


def _folder_name(trial: Trial) -> str | None:
    """Returns the name of the trial's folder in the sweep's; None before its first start."""
    name: Any = trial.relative_logdir  # Ray declares it as always None
    return name
