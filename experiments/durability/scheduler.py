"""The scheduler of a sweep that survives a kill: it tells the keeper what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from experiments.cluster.ray_watch import lost_ray
from experiments.disk_space import full_disk
from experiments.internals.tune import has_run_full, loop_of, metric_of
from experiments.monitor.episode_watch import is_unknown
from experiments.stop_signals import received
from experiments.trial_info import error_cause, trial_folder

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


def durable_copy(scheduler: TrialScheduler) -> TrialScheduler:
    """Return a scheduler that does as another one does, and tells the keeper that it is given."""
    kept: TrialScheduler = _new_durable(type(scheduler))
    kept.__dict__.update(scheduler.__dict__)
    return kept


class _Durable:
    """What `durable` puts in front of a scheduler's class: it tells the keeper what happens."""

    _keeper: Any  # the `SweepKeeper`, whose module imports this one

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        self._keeper.change(loop_of(tune_controller), trial)
        if self._keeper.expects_add(trial):
            super().on_trial_add(tune_controller, trial)  # type: ignore[misc]

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        end_if_not_its_fault(trial)
        self._keeper.forget(trial)
        super().on_trial_error(tune_controller, trial)  # type: ignore[misc]

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        if is_unknown(result, metric_of(self)) and not has_run_full(self, result):
            return TrialScheduler.CONTINUE  # it is judged once there is something to judge
        decision: str = super().on_trial_result(tune_controller, trial, result)  # type: ignore[misc]
        if decision == TrialScheduler.STOP and not has_run_full(self, result):
            self._keeper.note_pruned(trial)
        return decision

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        # Every step of Tune's loop comes by here, after new trials were made and before any starts.
        self._keeper.attach(loop_of(tune_controller))
        return super().choose_trial_to_run(tune_controller)  # type: ignore[misc]

    def __reduce__(self) -> tuple[Any, ...]:
        return _new_durable, (type(self).__mro__[2],), self.__dict__


_durable_classes: dict[type, type] = {}


def _new_durable(base: type) -> Any:
    """Return an empty durable instance of `base`, of the one durable class made for it."""
    if base not in _durable_classes:
        attributes = {"__doc__": base.__doc__, "__module__": base.__module__}
        _durable_classes[base] = type(base.__name__, (_Durable, base), attributes)
    return object.__new__(_durable_classes[base])


def end_if_not_its_fault(trial: Trial) -> None:
    """End the sweep if a trial failed because of what it runs on: each other one would fail, too.

    The trial stays as it was last saved, and a resume goes on with it.

    Raises:
        RuntimeError: Ray has died under it, or a disk is full.
        KeyboardInterrupt: A signal that ends the sweep has ended the trial's process, too.
    """
    if received():
        raise KeyboardInterrupt
    cause = lost_ray() or full_disk([error_cause(trial)], trial_folder(trial))
    if cause:
        raise RuntimeError(cause)
