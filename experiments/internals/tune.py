"""Every private part of Ray Tune that is used: the rest of the package calls these functions.

Tune has no public way to save a sweep at a given moment, to change a restored one or to move a
trial. `tests` names the version of Ray for which these parts are as they are taken to be here.
"""

from __future__ import annotations

import copy
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ray.air._internal import usage
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.train._internal.session import _TrainingResult
from ray.tune import utils
from ray.tune.experiment import Trial
from ray.tune.result import EXPR_RESULT_FILE, TRIAL_INFO
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search.variant_generator import _count_variants, generate_variants
from ray.tune.utils.serialization import TuneFunctionEncoder
from ray.tune.utils.util import SafeFallbackEncoder

if TYPE_CHECKING:
    from ray.tune import Callback, ResultGrid, Trainable, Tuner
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.search import SearchGenerator

LOOP_LOGGER = "ray.tune.execution.tune_controller"
RESTORE_FAILED = "Failed to restore the run state"
"""How the message begins with which Tune's loop says that it starts a resumed sweep anew."""

RESULT_FILE = EXPR_RESULT_FILE
RESULT_ENCODER = SafeFallbackEncoder
STATE_ENCODER = TuneFunctionEncoder
TRIAL_INFO_KEY = TRIAL_INFO

TrainingResult = _TrainingResult
"""A checkpoint and the result that it is of."""


# -- Tune's loop -----------------------------------------------------------------------------------


def loop_of(controller: Any) -> TuneController:
    """Return the loop in the wrapper that schedulers are shown, which warns of private names."""
    found: TuneController = getattr(controller, "_tune_controller", controller)
    return found


def shown(controller: TuneController) -> Any:
    """Return the loop in that wrapper."""
    return controller._wrapped()


def iteration(controller: TuneController) -> int:
    """Return how many steps the loop has made."""
    return int(controller._iteration)


def callbacks(controller: TuneController) -> list[Callback]:
    """Return the callbacks of the sweep, those that Tune adds included."""
    found: list[Callback] = controller._callbacks._callbacks
    return found


def num_begun(controller: TuneController) -> int:
    """Return how many trials are pending, running or paused."""
    states = (controller._pending_trials, controller._running_trials, controller._paused_trials)
    return sum(map(len, states))


def set_status(controller: TuneController, trial: Trial, status: str) -> None:
    """Move a trial to another status."""
    controller._set_trial_status(trial, status)


def count_live(controller: TuneController, trial: Trial) -> None:
    """Count a trial that goes on among those that have not ended."""
    controller._live_trials.add(trial)


def note_changed(controller: TuneController, trial: Trial) -> None:
    """Have a trial's state written by the next save, or it would be as it was before."""
    controller._mark_trial_to_checkpoint(trial)


def end_trial(controller: TuneController, trial: Trial, result: Mapping[str, Any]) -> None:
    """End a trial that has no process, and tell the search and the callbacks.

    Args:
        controller: The loop.
        trial: The trial.
        result: Its last result, flat, for the search.
    """
    controller.search_alg.on_trial_complete(trial.trial_id, result=result)
    controller._callbacks.on_trial_complete(
        iteration=controller._iteration, trials=controller.get_trials(), trial=trial
    )
    controller._set_trial_status(trial, Trial.TERMINATED)
    controller._live_trials.discard(trial)


def take_decisions(controller: TuneController) -> dict[str, str]:
    """Forget what a saved sweep was about to do with its trials; return it, by trial.

    A decision waits for the checkpoint of the result that it is of. Tune saves it, and carries it
    out after the first checkpoint of the resumed trial, whatever is decided then.
    """
    loop: Any = controller
    taken = {**loop._cached_trial_decisions, **loop._queued_trial_decisions}
    loop._cached_trial_decisions.clear()
    loop._queued_trial_decisions.clear()
    return taken


def save_trial(controller: TuneController, trial: Trial, result: dict[str, Any]) -> None:
    """Have a trial that goes on write a checkpoint, which belongs to this result."""
    controller._schedule_trial_save(trial, result=result)


def num_cpus(controller: TuneController) -> int:
    """Return how many CPUs the cluster has."""
    return int(controller._resource_updater.get_num_cpus())


def on_failure(
    controller: TuneController, handle: Callable[[Trial, Exception, Callable[[], None]], None]
) -> None:
    """Take part in how the loop handles the failures of trials.

    Args:
        controller: The loop. It gets a class of its own, as what is set on the object itself would
            be written into the sweep's state.
        handle: A function of the trial, its exception, and what the loop would do.
    """

    class Guarded(type(controller)):  # type: ignore[misc]
        def _process_trial_failure(self, trial: Trial, exception: Any) -> None:
            def go_on() -> None:
                super(Guarded, self)._process_trial_failure(trial, exception)

            handle(trial, exception, go_on)

    controller.__class__ = Guarded


def start_where_reset_fails(
    controller: TuneController, refused: Callable[[Trial], None], wait_s: float
) -> None:
    """Start a process for a trial that cannot take over the one of an ended trial.

    Args:
        controller: The loop. It gets a class of its own, see `on_failure`.
        refused: A function that is told of each trial whose `reset_config` returned False.
        wait_s: How long the loop waits for a searcher that has no trial now, at most.
    """

    class Replacing(type(controller)):  # type: ignore[misc]
        def _on_trial_reset(self, trial: Trial, success: bool) -> None:
            if success:
                super()._on_trial_reset(trial, success)
                return
            refused(trial)
            self._resetting_trials.remove(trial)
            actor = self._trial_to_actor.pop(trial)
            self._actor_to_trial.pop(actor)
            trial.set_ray_actor(None)
            self._remove_actor(tracked_actor=actor)
            # Those that wait to be taken over hold what a new process needs, and would refuse, too.
            self._cleanup_cached_actors(force_all=True)
            self._schedule_trial_actor(trial)

        def _process_trial_failure(self, trial: Trial, exception: Any) -> None:
            # Tune leaves a trial that fails in its reset among those that are being reset: when
            # it is tried again, no process would be started for it.
            self._resetting_trials.discard(trial)
            super()._process_trial_failure(trial, exception)

        def _update_trial_queue(self, blocking: bool = False, timeout: float = wait_s) -> bool:
            made: bool = super()._update_trial_queue(blocking, min(timeout, wait_s))
            return made

    controller.__class__ = Replacing


# -- processes of trials ---------------------------------------------------------------------------


def is_resetting(controller: TuneController, trial: Trial) -> bool:
    """Tell whether a trial is taking over the process of an ended one."""
    return trial in controller._resetting_trials


def has_process(controller: TuneController, trial: Trial) -> bool:
    """Tell whether a trial's process has started."""
    actor = controller._trial_to_actor.get(trial)
    return actor is not None and bool(controller._actor_manager.is_actor_started(actor))


def has_place(controller: TuneController) -> bool | None:
    """Tell whether one of the processes that trials share has a place; None: they share none."""
    return getattr(controller._actor_manager, "has_place", None)


def has_reserved(controller: TuneController, trial: Trial) -> bool:
    """Tell whether resources such as a trial needs are reserved."""
    if (shared := has_place(controller)) is not None:
        return shared
    request: Any = trial.placement_group_factory
    return bool(controller._actor_manager._resource_manager.has_resources_ready(request))


def num_to_be_free(controller: TuneController) -> int:
    """Return how many processes are idle, end, or are left by trials that pause once saved."""
    manager = controller._actor_manager
    ending = sum(map(manager.is_actor_started, controller._stopping_actors))
    pausing = list(controller._cached_trial_decisions.values()).count(TrialScheduler.PAUSE)
    return int(controller._actor_cache.num_cached_objects + ending + pausing)


# -- what is saved of a sweep ----------------------------------------------------------------------


def storage_of(controller: TuneController) -> Any:
    """Return the folders of the sweep: where it is staged, and where it is kept."""
    return controller._storage


def storage_of_saves(controller: TuneController) -> Any:
    """Return the folders that a save of the sweep copies between."""
    return controller._checkpoint_manager._storage


def copy_saves_with(controller: TuneController, syncer: Any) -> None:
    """Have another syncer copy the staged state, and no save made for the number of checkpoints.

    Tune would save after every `num_to_keep` checkpoints of a trial, and warn that it does so too
    often.
    """
    manager = controller._checkpoint_manager
    # A copy, as trials share the original with their workers.
    manager._storage = copy.copy(manager._storage)
    manager._storage.syncer = syncer
    manager._sync_every_n_trial_checkpoints = None


def changed_trials(controller: TuneController) -> list[Trial]:
    """Return the trials whose states the next save writes anew."""
    return list(controller._trials_to_cache)


def take_trial_states(controller: TuneController) -> dict[str, Any]:
    """Return the states of the trials that changed, by id; the loop keeps no copy of them."""
    states = dict(controller._get_trial_checkpoints())
    controller._trial_metadata.clear()
    return states


def start_time(controller: TuneController) -> float:
    """Return when the sweep began."""
    return float(controller._start_time)


def save_search_and_callbacks(controller: TuneController) -> None:
    """Write the states of the search and of the callbacks into the staging folder."""
    folder = storage_of(controller).experiment_driver_staging_path
    session = controller._session_str
    controller._search_alg.save_to_dir(folder, session_str=session)
    controller._callbacks.save_to_dir(folder, session_str=session)


# -- checkpoints of a trial ------------------------------------------------------------------------


def set_latest_checkpoint(trial: Trial, latest: TrainingResult | None) -> None:
    """Have a trial go on from a checkpoint; from none, it starts anew."""
    manager: Any = trial.run_metadata.checkpoint_manager
    manager._latest_checkpoint_result = latest
    trial.run_metadata.invalidate_cache()


def keep_checkpoints(trial: Trial, is_kept: Callable[[TrainingResult], bool]) -> None:
    """Forget all but some of a trial's checkpoints, without deleting any."""
    manager: Any = trial.run_metadata.checkpoint_manager
    manager._checkpoint_results = [kept for kept in manager._checkpoint_results if is_kept(kept)]
    latest = manager.latest_checkpoint_result
    if latest is not None and not is_kept(latest):
        manager._latest_checkpoint_result = None


def forget_checkpoints(trial: Trial) -> None:
    """Have a trial begin without a checkpoint."""
    manager: Any = trial.run_metadata.checkpoint_manager
    trial.run_metadata.checkpoint_manager = _CheckpointManager(manager.checkpoint_config)


@contextmanager
def own_working_folder() -> Iterator[None]:
    """Have the sweep that is begun in here keep its files apart from those of any other.

    Tune names the folder by the sweep and the second: of two sweeps of one name on one Ray, the
    second would find the trials of the first there and copy them into its own results.
    """
    second = utils.date_str
    utils.date_str = lambda: f"{second()}-{uuid.uuid4().hex[:8]}"
    try:
        yield
    finally:
        utils.date_str = second


@contextmanager
def uncounted_callbacks() -> Iterator[None]:
    """Keep a sweep that begins in here from counting its callbacks by kind, as Ray reports usage.

    To know the kinds it imports all of MLflow, on the thread that starts the trials. Where a user
    lets Ray report usage they are counted.
    """
    theirs = usage.tag_callbacks
    if os.environ.get("RAY_USAGE_STATS_ENABLED") == "0":
        usage.tag_callbacks = lambda callbacks: False
    try:
        yield
    finally:
        usage.tag_callbacks = theirs


# -- a restored sweep, and what came out of one ----------------------------------------------------


class OpenedTuner:
    """A Tuner, opened.

    Attributes:
        trainable: The class of its trials.
        trials: Of a restored one, as they were saved; None if Tune could not read its state.
        run_config: The Tuner's own.
        tune_config: Likewise.
    """

    def __init__(self, tuner: Tuner) -> None:
        internal: Any = tuner._local_tuner
        self._internal, analysis = internal, internal._experiment_analysis
        self.trainable: Any = internal.converted_trainable
        self.trials: list[Trial] | None = None if analysis is None else analysis.trials
        self.run_config: Any = internal.get_run_config()

    @property
    def tune_config(self) -> Any:
        return self._internal._tune_config

    @tune_config.setter
    def tune_config(self, config: Any) -> None:
        self._internal._tune_config = config

    def first_config(self) -> dict[str, Any]:
        """Return the settings of a trial, drawn from the space where they are not fixed."""
        if self.trials:
            return dict(self.trials[0].config)
        space = {"config": self._internal.param_space or {}}
        return dict(next(generate_variants(space, random_state=0))[1]["config"])

    def num_trials(self) -> int:
        """Return how many trials a search of Tune's own makes at most."""
        if self.trials is not None:  # it may make more, from a space that is not at hand
            return sys.maxsize
        samples = self.tune_config.num_samples
        space = {"config": self._internal.param_space or {}, "num_samples": samples}
        return int(_count_variants(space, [])) if samples > 0 else sys.maxsize


def trials_of(results: ResultGrid) -> list[Trial]:
    """Return the trials of a sweep that has been run."""
    return list(results._experiment_analysis.trials or [])


def grow_search(generator: SearchGenerator, num_trials: int, reopens: bool) -> None:
    """Have a restored search make as many trials, and not be over if some are reopened."""
    if num_trials > generator._total_samples or reopens:
        generator._total_samples = max(generator._total_samples, num_trials)
        generator._finished = False


def set_criteria(generator: SearchGenerator, stop: Mapping[str, float]) -> None:
    """Have every trial that the search makes from now on stop at these criteria."""
    experiment: Any = generator._experiment
    experiment.spec["stop"] = dict(stop)


# -- Tune's schedulers -----------------------------------------------------------------------------


def base_of(scheduler: Any) -> Any:
    """Return the scheduler that decides, within one that hands out resources."""
    return getattr(scheduler, "_base_scheduler", scheduler)


def metric_of(scheduler: Any) -> str | None:
    """Return the objective of a scheduler, if it has one."""
    return getattr(scheduler, "_metric", None)


def sign_of(scheduler: Any) -> float:
    """Return -1 for an ASHA scheduler that minimises, else 1."""
    return scheduler._metric_op or 1.0


def time_attr_of(scheduler: Any) -> str:
    """Return the budget of a scheduler, a key of results; empty if it has none."""
    return str(getattr(scheduler, "_time_attr", ""))


def has_run_full(scheduler: Any, result: Mapping[str, Any]) -> bool:
    """Tell whether a trial has used up the budget at which a scheduler ends the best of them."""
    limit = getattr(scheduler, "_max_t", None)
    spent = result.get(time_attr_of(scheduler))
    return limit is not None and spent is not None and spent >= limit


def forget_stopped(rule: MedianStoppingRule, trial: Trial) -> None:
    """Have the median rule judge a trial again that it had stopped."""
    rule._stopped_trials.discard(trial)


class Rungs:
    """The rungs of an ASHA scheduler.

    Args:
        scheduler: The scheduler; what is changed here is changed in it.
    """

    def __init__(self, scheduler: AsyncHyperBandScheduler) -> None:
        self._scheduler: Any = scheduler

    def brackets(self) -> list[list[tuple[float, dict[str, float]]]]:
        """Return each bracket's rungs, the highest first: a milestone, and scores by trial."""
        return [bracket._rungs for bracket in self._scheduler._brackets]

    @property
    def time_attr(self) -> str:
        """The budget, a key of results."""
        return str(self._scheduler._time_attr)

    @property
    def max_t(self) -> Any:
        """The budget of a trial that is never stopped early."""
        return self._scheduler._max_t

    @max_t.setter
    def max_t(self, budget: int) -> None:
        self._scheduler._max_t = budget

    @property
    def factor(self) -> Any:
        """One in so many trials goes on at each rung."""
        return self._scheduler._reduction_factor

    def assign(self, trial_id: str, number: int) -> None:
        """Put a trial into a bracket."""
        self._scheduler._trial_info[trial_id] = self._scheduler._brackets[number]

    def dismiss(self, trial_id: str) -> None:
        """Take a trial out of its bracket; its scores stay."""
        del self._scheduler._trial_info[trial_id]

    def cutoff(self, number: int, scores: Mapping[str, float]) -> float | None:
        """Return the least score with which a trial goes on in a bracket; None while all do."""
        found: float | None = self._scheduler._brackets[number].cutoff(dict(scores))
        return found


def select_by_bandit(*arguments: Any) -> Any:
    """Return the settings that PB2's Gaussian process chooses; see Ray's `_select_config`."""
    from ray.tune.schedulers.pb2 import _select_config

    return _select_config(*arguments)


# -- trainables ------------------------------------------------------------------------------------


def name_trainable(trainable: Any, name: str) -> None:
    """Name the class that Tune made of a function."""
    trainable.__name__ = trainable._name = name


def counters_of(trainable: Trainable) -> tuple[int, float]:
    """Return how many iterations a trainable has made, and its seconds."""
    return trainable._iteration, trainable._time_total


def set_counters(trainable: Trainable, iterations: int, seconds: float) -> None:
    """Have a trainable count on from there."""
    trainable._iteration, trainable._time_total = iterations, seconds


def given_to(trainable: Trainable) -> tuple[Any, Any]:
    """Return what Tune gave a trainable besides its config: whose trial it is, and the folders."""
    return trainable._trial_info, trainable._storage
