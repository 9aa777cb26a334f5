"""How a resumed sweep takes over what was saved: trials, scheduler, and what is to change.

Before Tune's first step the scheduler is told of trials again, and not of those that its restored
state holds. At that step each trial is brought up to its newest checkpoint, which may be newer than
the saved state; trials that had ended and go on start as there is room for them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.logger import LoggerCallback
from ray.tune.schedulers import TrialScheduler

from analysis.names import ITERATION
from analysis.results.rows import flatten
from experiments.durability import checkpoint_journal, resumption
from experiments.internals.tune import (
    base_of,
    callbacks,
    count_live,
    end_trial,
    iteration,
    note_changed,
    num_begun,
    set_status,
    shown,
    take_decisions,
)
from experiments.schedulers.acting_scheduler import acting
from experiments.schedulers.state import (
    extend_rungs,
    forget_results,
    forget_stop,
    load_state,
    take_back,
    takes_note,
)
from experiments.trial_info import PRUNED, folder_name, read_json_lines, trial_folder

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

    from experiments.durability.resumption import Changes

logger = logging.getLogger(__name__)


class Resume:
    """The resume of a sweep.

    Args:
        scheduler: The sweep's scheduler.
        saved: Its state, if it could be saved.
        added: The ids of the trials that it knew.
        pruned: The ids of the trials that it has ended; those that this resume finds are added.
        changes: How the sweep differs from the one that was saved, if it may.

    Attributes:
        saved: The scheduler's state, until there are trials for it to refer to.
    """

    def __init__(
        self,
        scheduler: TrialScheduler,
        saved: bytes | None,
        added: set[str],
        pruned: set[str],
        changes: Changes | None,
    ) -> None:
        self.saved = saved
        self._scheduler, self._pruned, self._changes = scheduler, pruned, changes
        self._known = set(added) if saved is not None else set()  # Tune will tell of them again
        self._deferred: list[Trial] = []  # new trials, made before the state could be restored
        self._waiting: list[Trial] = []  # trials that go on once there is room for them
        self._criteria: dict[str, dict[str, float]] = {}  # of unfinished trials, before the resume
        self._is_complete = False

    # -- before Tune's first step ----------------------------------------------------------------

    def knows(self, trial: Trial) -> bool:
        """Tell whether the scheduler's restored state holds a trial that it is told of again."""
        is_known = trial.trial_id in self._known
        self._known.discard(trial.trial_id)
        return is_known

    def defers(self, trial: Trial) -> bool:
        """Tell whether the scheduler is told of a new trial only when its state is restored."""
        if self.saved is not None:
            self._deferred.append(trial)
        return self.saved is not None

    def change(self, controller: TuneController, trial: Trial) -> None:
        """Bring a saved trial in line with the changes while Tune takes it over."""
        changes = self._changes
        if changes is None or self._is_complete:
            return
        if trial.trial_id in changes.reopened:
            self._waiting.append(trial)
            if len(self._waiting) <= changes.at_once:
                # Tune sorts the trial in by its status after this call.
                trial.set_status(Trial.PENDING)
                count_live(controller, trial)
        elif trial.trial_id in changes.unfinished:
            self._criteria[trial.trial_id] = trial.stopping_criterion
            trial.stopping_criterion = dict(changes.stop)
            trial.invalidate_json_state()

    # -- at the first step -----------------------------------------------------------------------

    def complete(self, controller: TuneController, *, has_journal: bool) -> None:
        """Take over the state and the trials; once.

        Args:
            controller: Tune's loop.
            has_journal: Whether the sweep lies in a local folder, where checkpoints are noted.
        """
        if self._is_complete:
            return
        self._is_complete = True
        self._restore_scheduler(controller)
        undone = take_decisions(controller)
        for trial in controller.get_trials():
            if not trial.is_finished() and trial not in self._waiting and has_journal:
                self._resume_trial(controller, trial)
                if undone.get(trial.trial_id) == TrialScheduler.STOP and not trial.is_finished():
                    self._take_back(trial)
        self._reopen_trials(controller, has_journal)
        self._leave_at_rest(controller)

    def _restore_scheduler(self, controller: TuneController) -> None:
        saved, self.saved = self.saved, None
        if saved is None:
            return
        trials = {trial.trial_id: trial for trial in controller.get_trials()}
        to_add = self._deferred
        try:
            load_state(self._scheduler, saved, trials)
        except Exception as error:  # e.g. pickled by another version
            logger.warning("The scheduler's state is lost (%s): a new scheduler starts.", error)
            to_add = list(trials.values())
        self._deferred = []
        for trial in to_add:
            self._scheduler.on_trial_add(shown(controller), trial)

    def _resume_trial(self, controller: TuneController, trial: Trial) -> None:
        if not folder_name(trial):
            return  # it never started
        forget_stop(self._scheduler, trial)
        saved = (trial.run_metadata.last_result or {}).get(ITERATION, 0)
        newest = checkpoint_journal.adopt(trial)
        if newest is None:
            return
        self._replay(controller, trial, saved, newest.result.get(ITERATION, 0))
        if newest.is_new:
            trial.update_last_result({**newest.result, "config": trial.config})
            if newest.scheduler:
                acting(self._scheduler).set_trial_state(trial, newest.scheduler)
        if self._goes_on(trial, newest.result):
            checkpoint_journal.reopen(trial)
        elif newest.result.get("done"):
            self._finish(controller, trial, newest.result)

    def _take_back(self, trial: Trial) -> None:
        """Have a trial judged again that was to end, but whose last result is lost.

        ASHA would let it pass where it has noted a result of it already.
        """
        checkpoint = trial.latest_checkpoint_result
        last = checkpoint.metrics if checkpoint is not None else {}
        forget_results(self._scheduler, trial, last)

    def _goes_on(self, trial: Trial, result: dict[str, Any]) -> bool:
        before = self._criteria.get(trial.trial_id)
        return before is not None and resumption.goes_on(result, before, trial.stopping_criterion)

    def _reopen_trials(self, controller: TuneController, has_journal: bool) -> None:
        """Prepare the trials that had ended and go on, but those that ASHA does not let."""
        changes = self._changes
        if changes is None:
            return
        extend_rungs(self._scheduler, changes.stop)
        waiting, self._waiting = self._waiting, []
        for trial in waiting:
            if has_journal and trial.trial_id not in changes.restarted:
                checkpoint_journal.adopt(trial)
            resumption.reopen(trial, changes)
            if trial.trial_id in changes.restarted:
                forget_results(self._scheduler, trial)
            if trial.trial_id in changes.longer and not take_back(self._scheduler, trial):
                self._prune(controller, trial)
            elif trial.is_finished():  # there is no room for it yet
                self._waiting.append(trial)
            note_changed(controller, trial)

    def _prune(self, controller: TuneController, trial: Trial) -> None:
        """Leave a finished trial ended that is too bad for the longer budget."""
        self._pruned.add(trial.trial_id)
        trial.run_metadata.last_result = {**trial.last_result, PRUNED: True}
        end_trial(controller, trial, flatten(trial.last_result))

    def _replay(self, controller: TuneController, trial: Trial, after: int, until: int) -> None:
        """Tell the scheduler of results between the saved state and the adopted checkpoint.

        Only one that merely takes note of results, as ASHA does; PBT and HyperBand act on them.
        """
        scheduler = base_of(self._scheduler)
        if not takes_note(scheduler):
            return
        for row in read_json_lines(trial_folder(trial) / "result.json"):
            if after < row.get(ITERATION, 0) <= until:
                after = row[ITERATION]  # each once: a resumed trial repeats rows
                scheduler.on_trial_result(shown(controller), trial, flatten(row))
                forget_stop(scheduler, trial)
        # What it would decide now is of no account: the trial had gone on.
        self._pruned.discard(trial.trial_id)

    def _finish(self, controller: TuneController, trial: Trial, result: dict[str, Any]) -> None:
        """End a trial whose last checkpoint was made, but whose end was not saved any more."""
        trial.update_last_result({**result, "config": trial.config})
        flat = flatten(trial.last_result)
        told = {"iteration": iteration(controller), "trials": controller.get_trials()}
        rows = read_json_lines(trial_folder(trial) / "result.json")
        written = bool(rows) and bool(rows[-1].get("done"))
        for callback in callbacks(controller):
            if not (written and isinstance(callback, LoggerCallback)):  # they add to files
                callback.on_trial_result(**told, trial=trial, result=trial.last_result)
        self._scheduler.on_trial_complete(shown(controller), trial, flat)
        end_trial(controller, trial, flat)
        note_changed(controller, trial)

    def _leave_at_rest(self, controller: TuneController) -> None:
        """Leave trials at the barrier where they wait for others: Tune starts all pending ones."""
        scheduler = acting(self._scheduler)
        for trial in controller.get_trials():
            if trial.status == Trial.PENDING and scheduler.is_at_rest(trial):
                set_status(controller, trial, Trial.PAUSED)

    # -- at every step ---------------------------------------------------------------------------

    def start_waiting(self, controller: TuneController) -> bool:
        """Start trials that go on as others end, as many as may run at a time.

        Returns:
            Whether one was started.
        """
        if not self._waiting or self._changes is None:
            return False
        room = max(0, self._changes.max_concurrent - num_begun(controller))
        starting, self._waiting = self._waiting[:room], self._waiting[room:]
        for trial in starting:
            set_status(controller, trial, Trial.PENDING)
            count_live(controller, trial)
            note_changed(controller, trial)
        return bool(starting)
