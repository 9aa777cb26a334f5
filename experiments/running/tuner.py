"""From a spec to a `tune.Tuner`, new or restored."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.credentials import without_credentials
from analysis.results.mlflow_tags import SPEC_TAG
from experiments.activity import doing
from experiments.cluster.session import prepare_environment
from experiments.errors import SweepError
from experiments.schedulers.kind import scheduler_kind
from experiments.spec.function_trainable import is_function_class
from experiments.spec.metrics import declared_metrics, families
from experiments.spec.paths import SPEC_FILE
from experiments.spec.schema import SweepSpec
from experiments.sweep.hosting import HostPlan
from experiments.sweep.load import dump_spec, spec_data
from experiments.sweep.sweep import Sweep

if TYPE_CHECKING:
    from ray import tune
    from rich.console import Console

    from experiments.durability.resumption import Errored
    from experiments.internals.hosts import Hosts
    from experiments.monitor.progress import Progress
    from experiments.running.warm_start import History
    from experiments.search.study_storage import StudyCopy
    from experiments.tracking.logger import MLflowLogger


@dataclass
class PreparedSweep:
    """A Tuner and the objects in it that are still needed when it has run."""

    tuner: tune.Tuner
    mlflow: MLflowLogger | None
    study: StudyCopy | None = None


def build_tuner(spec: SweepSpec) -> tune.Tuner:
    """Return a `tune.Tuner` that runs the sweep; `fit()` it in a process with Ray running.

    Writes the sweep's folder: the spec, and Tune's description of the sweep. Sets the environment
    variables of this process that Tune reads (`experiments.cluster.session`), for it runs later
    than this.
    """
    from experiments.running.warm_start import load_history
    from experiments.search.build import study_copy

    prepare_environment()
    sweep = Sweep.of(spec)
    return prepare_tuner(sweep, load_history(sweep), study_copy(spec)).tuner


def prepare_tuner(
    sweep: Sweep,
    history: History,
    study: StudyCopy | None,
    *,
    console: Console | None = None,
    verbosity: int = 0,
) -> PreparedSweep:
    """Return what `build_tuner` does, with what the runner needs afterwards.

    Args:
        sweep: The sweep.
        history: What the search starts from.
        study: Where a copy of the study is kept, if there is to be one.
        console: Where progress is shown.
        verbosity: See `experiments.running.runner.run_sweep`.
    """
    doing("preparing the sweep")
    from ray import tune

    from experiments.durability.keeper import durable
    from experiments.monitor.episode_watch import EpisodeWatch
    from experiments.monitor.host_watch import HostWatch
    from experiments.monitor.metric_watch import MetricWatch, PauseWatch, watched_metrics
    from experiments.monitor.stall_watch import StallWatch
    from experiments.monitor.trial_files import file_loggers
    from experiments.running.user_callbacks import callbacks_of
    from experiments.schedulers.kind import build_scheduler
    from experiments.search.build import TogetherLimiter, build_search

    spec, space, trainable, count = sweep.spec, sweep.space, sweep.trainable, sweep.num_trials
    own = callbacks_of(spec)  # one that cannot be made leaves nothing behind
    hosts = _hosts(sweep)
    metric, mode = spec.objective.metric, spec.objective.mode

    sweep.folder.mkdir(parents=True, exist_ok=True)
    spec_file = sweep.folder / SPEC_FILE
    spec_file.write_text(dump_spec(spec), encoding="utf-8")

    limit = sweep.at_once
    search = build_search(spec, space, limit, history=history.trials, study=study)
    alive = scheduler_kind(spec.scheduler).alive(count, limit)
    if alive is not None:
        search = TogetherLimiter(search.searcher, alive, count)
    scheduler, keeper = durable(build_scheduler(spec, space, trainable, count))
    mlflow = _mlflow_logger(sweep, spec_file) if spec.mlflow.enabled else None
    _tell_hosts(mlflow, sweep)
    # The keeper comes first: it adds to results what the others read.
    watch = MetricWatch(watched_metrics(spec), families(declared_metrics(trainable)))
    callbacks: list[tune.Callback] = [keeper, watch, *file_loggers(spec.loggers)]
    if is_function_class(trainable) and scheduler_kind(spec.scheduler).pauses:
        callbacks.append(PauseWatch(spec.trainable, spec.scheduler.algorithm))
    if mlflow is not None:
        callbacks.append(mlflow)
    callbacks += [StallWatch(), EpisodeWatch()]
    if hosts is not None:
        callbacks.append(HostWatch())
    # Those of the spec come last: a resume may have more of them, and Tune goes by their places.
    callbacks += [_progress(sweep, console, verbosity), *own]

    config = dict(spec.config)
    if spec.seed is not None and spec.seeds is None and takes_seed(trainable):
        config.setdefault("seed", spec.seed)
    tuner = tune.Tuner(
        trainable,
        param_space=config,
        tune_config=tune.TuneConfig(
            metric=metric,
            mode=mode,
            search_alg=search,
            scheduler=scheduler,
            num_samples=count if alive is None else count + 1,  # see TogetherLimiter
            time_budget_s=spec.time_budget_s,
            reuse_actors=hosts is None and bool(spec.resources.reuse_actors),
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_folder,
        ),
        run_config=tune.RunConfig(
            name=spec.name,
            storage_path=str(sweep.storage),
            stop=dict(spec.stop),
            callbacks=callbacks,
            checkpoint_config=tune.CheckpointConfig(
                num_to_keep=spec.checkpoint.num_to_keep,
                checkpoint_score_attribute=metric,
                checkpoint_score_order=mode,
                checkpoint_frequency=spec.checkpoint.frequency,
                checkpoint_at_end=spec.checkpoint.at_end,
            ),
            failure_config=tune.FailureConfig(max_failures=spec.max_failures),
            verbose=0,
        ),
    )
    return PreparedSweep(_with_hosts(tuner, hosts), mlflow, study)


def restore_tuner(
    sweep: Sweep,
    *,
    errored: Errored = "keep",
    console: Console | None = None,
    verbosity: int = 0,
    study: StudyCopy | None = None,
) -> PreparedSweep:
    """Return the Tuner of a sweep that was begun, with the searcher, scheduler and logger it had.

    Args:
        sweep: What the sweep is to be, in the folder where it lies now; it may ask for more samples
            or a longer budget than before.
        errored: Whether trials that failed are left as they are ("keep"), go on from their latest
            checkpoint ("retry") or start anew ("restart").
        console: Where progress is shown.
        verbosity: See `experiments.running.runner.run_sweep`.
        study: Where a copy of the study is kept.

    Raises:
        SweepError: The folder's state cannot be read, or the trials cannot go on as asked.
    """
    doing("reading the state of the sweep")
    from ray import tune

    from experiments.durability.keeper import SweepKeeper
    from experiments.durability.resumption import ResumedSearch, plan_changes
    from experiments.internals.tune import OpenedTuner
    from experiments.monitor.progress import Progress
    from experiments.running.user_callbacks import GuardedCallback, callbacks_of
    from experiments.tracking.logger import MLflowLogger

    spec, folder = sweep.spec, sweep.folder
    own = callbacks_of(spec)
    try:
        tuner = tune.Tuner.restore(str(folder), trainable=sweep.trainable)
    except (ModuleNotFoundError, AttributeError) as error:  # classes lay elsewhere then
        raise SweepError(
            f"{folder}: the sweep's state was saved by another release of Tunescape ({error}): "
            "resume it with that release, or run its spec under another --name"
        ) from error
    except Exception as error:  # unpickling a damaged file may raise anything
        raise SweepError(f"{folder}: the state of the sweep cannot be read: {error}") from error
    restored = OpenedTuner(tuner)
    if restored.trials is None:  # Tune swallows the reason
        raise SweepError(f"{folder}: the state of the sweep cannot be read")
    run_config, tune_config = restored.run_config, restored.tune_config
    hosts = _hosts(sweep)
    tune_config.reuse_actors = hosts is None and bool(spec.resources.reuse_actors)
    mlflow = next((c for c in run_config.callbacks if isinstance(c, MLflowLogger)), None)
    if mlflow is not None and without_credentials(sweep.tracking_uri) == mlflow.tracking_uri:
        mlflow.tracking_uri = sweep.tracking_uri  # its credentials are not saved
    _tell_hosts(mlflow, sweep)
    limiter = tune_config.search_alg
    changes = plan_changes(
        restored.trials,
        num_trials=sweep.num_trials,
        num_samples=spec.num_samples,
        stop=spec.stop,
        max_concurrent=_resumed_limit(limiter, sweep),
        errored=errored,
    )
    tune_config.search_alg = ResumedSearch(limiter, changes)
    if mlflow is not None:
        mlflow.start_anew(changes.restarted)
    next(c for c in run_config.callbacks if isinstance(c, SweepKeeper)).apply(changes)
    progress = _progress(sweep, console, verbosity)
    run_config.callbacks = [
        progress if isinstance(c, Progress) else c
        for c in run_config.callbacks
        if not isinstance(c, GuardedCallback)
    ] + own
    if study is not None:
        limiter.searcher.copy = study
    return PreparedSweep(_with_hosts(tuner, hosts), mlflow, study)


def _hosts(sweep: Sweep) -> Hosts | None:
    """Return the processes that trials share, if they do; they import while the Tuner is made.

    They end with what is returned, should there be no Tuner in the end.
    """
    plan = sweep.hosting
    if not isinstance(plan, HostPlan):
        return None
    import ray

    from experiments.internals.hosts import Hosts

    hosts = Hosts(plan.num_hosts, plan.resources, plan.places_each)
    if ray.is_initialized():
        hosts.start()
    return hosts


def _tell_hosts(mlflow: MLflowLogger | None, sweep: Sweep) -> None:
    plan = sweep.hosting
    if mlflow is None or not isinstance(plan, HostPlan):
        return
    from experiments.tracking.names import hosting_tags

    mlflow.tag_sweep(hosting_tags(plan.num_hosts, plan.places))


def _with_hosts(tuner: tune.Tuner, hosts: Hosts | None) -> tune.Tuner:
    if hosts is None:
        return tuner
    from experiments.internals.hosted_actors import HostedTuner

    return HostedTuner.of(tuner, hosts)


def _resumed_limit(limiter: Any, sweep: Sweep) -> int:
    """How many trials run at a time from now on: the cluster may be another one than before."""
    from experiments.search.build import TogetherLimiter

    if isinstance(limiter, TogetherLimiter):  # its population is all alive, whatever the cluster
        return limiter.max_concurrent
    return sweep.at_once


def _progress(sweep: Sweep, console: Console | None, verbosity: int) -> Progress:
    from experiments.monitor.progress import Progress

    spec = sweep.spec
    return Progress(
        spec.objective.metric,
        spec.objective.mode,
        total_trials=sweep.num_trials,
        name=spec.name,
        console=console,
        seeds=len(spec.seeds.values) if spec.seeds else 1,
        time_budget_s=spec.time_budget_s,
        names_hosts=verbosity > 0,
    )


class RefuseRestart(logging.Filter):
    """Ends a resume whose state Tune cannot read.

    Tune logs that and then starts the whole sweep anew in the same folder. The record is the only
    sign it gives, so that is where we stop it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Raise on Tune's notice that the state could not be restored."""
        from experiments.internals.tune import RESTORE_FAILED

        if str(record.msg).startswith(RESTORE_FAILED):
            cause = record.exc_info[1] if record.exc_info else None
            raise SweepError(f"the state of the sweep cannot be read: {cause}")
        return True

    def __enter__(self) -> RefuseRestart:
        _controller_logger().addFilter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _controller_logger().removeFilter(self)


def _controller_logger() -> logging.Logger:
    from experiments.internals.tune import LOOP_LOGGER

    return logging.getLogger(LOOP_LOGGER)


def _mlflow_logger(sweep: Sweep, spec_file: Path) -> MLflowLogger:
    from experiments.tracking.logger import MLflowLogger

    spec = sweep.spec
    return MLflowLogger(
        sweep.tracking_uri,
        spec.name,
        experiment_name=spec.mlflow.experiment_name,
        artifact_location=sweep.artifact_location,
        tags={SPEC_TAG: spec.name, **spec.mlflow.tags},
        params=_sweep_params(sweep),
        spec_path=str(spec_file),
        metric=spec.objective.metric,
        mode=spec.objective.mode,
        config=spec.config,
        log_model=spec.mlflow.log_model,
        register_as=spec.mlflow.register_as,
        system_metrics=spec.mlflow.system_metrics,
        max_pending_metrics=spec.mlflow.max_pending_metrics,
    )


def _sweep_params(sweep: Sweep) -> dict[str, Any]:
    """Return what describes the sweep as a whole; the trials' settings are in the child runs."""
    spec = sweep.spec
    return {
        "trainable": spec.trainable,
        "num_samples": spec.num_samples,
        "seed": spec.seed,
        "search": spec_data(spec)["search"],
        "scheduler": spec.scheduler.model_dump(),
        "stop": spec.stop,
        "config": spec.config,
        "search_space": {name: str(entry) for name, entry in spec.search_space.items()},
    }


def takes_seed(trainable: Any) -> bool:
    """Tell whether a trainable has the setting `seed`."""
    config_class = getattr(trainable, "config_class", None)
    return config_class is not None and "seed" in config_class.settings()


# Functions of the module: they travel in Tune's pickled state.
def _trial_name(trial: Any) -> str:
    return f"{trial.trainable_name}_{trial.trial_id}"


def _trial_folder(trial: Any) -> str:
    number = str(trial.experiment_tag or "0").split("_")[0]
    return f"{int(number):04d}_{trial.trial_id}" if number.isdigit() else str(trial.trial_id)
