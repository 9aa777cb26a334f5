"""From a spec to a `tune.Tuner`, new or restored."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.credentials import without_credentials
from experiments.activity import doing
from experiments.cluster import local_node, prepare_environment
from experiments.errors import SweepError
from experiments.function_trainable import is_function_class
from experiments.paths import (
    SPEC_FILE,
    artifact_location,
    storage_dir,
    sweep_dir,
    tracking_uri,
)
from experiments.preflight import trial_resources
from experiments.schedulers.registry import kind_of
from experiments.schema import SweepSpec
from experiments.seed_plan import sweep_trainable
from experiments.spec import dump_spec, spec_data, spec_space
from trainables.runtime.feasibility import live_nodes, total

if TYPE_CHECKING:
    from ray import tune
    from rich.console import Console

    from experiments.mlflow_logger import MLflowLogger
    from experiments.progress import Progress
    from experiments.resumption import Errored
    from experiments.study_storage import StudyCopy
    from experiments.warm_start import History


@dataclass
class PreparedSweep:
    """A Tuner and the objects in it that are still needed when it has run."""

    tuner: tune.Tuner
    mlflow: MLflowLogger | None
    total_trials: int
    study: StudyCopy | None = None


def build_tuner(spec: SweepSpec) -> tune.Tuner:
    """A `tune.Tuner` that runs the sweep; `fit()` it in a process with Ray running.

    Writes the sweep's folder: the spec, and Tune's description of the sweep. Sets the environment
    variables of this process that Tune reads (`experiments.cluster`), for it runs later than this.
    """
    prepare_environment()
    return prepare_tuner(spec).tuner


def prepare_tuner(
    spec: SweepSpec,
    *,
    console: Console | None = None,
    history: History | None = None,
    study: StudyCopy | None = None,
) -> PreparedSweep:
    """Like `build_tuner`, with what the runner needs afterwards.

    Args:
        spec: The sweep.
        console: Where progress is shown.
        history: What the search starts from, if it was read already.
        study: Where a copy of the study is kept, if it was opened already.
    """
    doing("preparing the sweep")
    from ray import tune

    from experiments.durability import durable
    from experiments.episode_watch import EpisodeWatch
    from experiments.metric_watch import MetricWatch, watched_metrics
    from experiments.pause_watch import PauseWatch
    from experiments.schedulers.build import build_scheduler
    from experiments.search import build_search, study_copy, total_trials
    from experiments.search_limit import TogetherLimiter
    from experiments.stall_watch import StallWatch
    from experiments.trial_files import file_loggers
    from experiments.user_callbacks import callbacks_of
    from experiments.warm_start import load_history

    own = callbacks_of(spec)  # one that cannot be made leaves nothing behind
    space = spec_space(spec)
    trainable = sweep_trainable(spec)
    metric, mode = spec.objective.metric, spec.objective.mode
    count = total_trials(spec, space)

    folder = sweep_dir(spec)
    folder.mkdir(parents=True, exist_ok=True)
    spec_file = folder / SPEC_FILE
    spec_file.write_text(dump_spec(spec), encoding="utf-8")

    history = history or load_history(spec, space)
    study = study or study_copy(spec)
    limit = max_concurrent_trials(spec, trainable)
    search = build_search(spec, space, limit, history=history.trials, study=study)
    alive = kind_of(spec.scheduler).alive(count, limit)
    if alive is not None:
        search = TogetherLimiter(search.searcher, alive, count)
    scheduler, keeper = durable(build_scheduler(spec, space, trainable, count))
    mlflow = _mlflow_logger(spec, spec_file) if spec.mlflow.enabled else None
    # The keeper comes first: it adds to results what the others read.
    watch = MetricWatch(watched_metrics(spec))
    callbacks: list[tune.Callback] = [keeper, watch, *file_loggers(spec.loggers)]
    if is_function_class(trainable) and kind_of(spec.scheduler).pauses:
        callbacks.append(PauseWatch(spec.trainable, spec.scheduler.algorithm))
    if mlflow is not None:
        callbacks.append(mlflow)
    callbacks += [StallWatch(), EpisodeWatch()]
    # Those of the spec come last: a resume may have more of them, and Tune goes by their places.
    callbacks += [_progress(spec, count, console), *own]

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
            reuse_actors=bool(spec.resources.reuse_actors),
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_folder,
        ),
        run_config=tune.RunConfig(
            name=spec.name,
            storage_path=str(storage_dir(spec)),
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
    return PreparedSweep(tuner, mlflow, count, study)


def restore_tuner(
    spec: SweepSpec,
    folder: Path,
    *,
    errored: Errored = "keep",
    console: Console | None = None,
    study: StudyCopy | None = None,
) -> PreparedSweep:
    """The Tuner of a sweep that was begun, with the searcher, scheduler and logger it had.

    Args:
        spec: What the sweep is to be; it may ask for more samples or a longer budget than before.
        folder: The sweep's folder, `runs/<name>`; it may have been moved.
        errored: Whether trials that failed are left as they are ("keep"), go on from their latest
            checkpoint ("retry") or start anew ("restart").
        console: Where progress is shown.
        study: Where a copy of the study is kept.

    Raises:
        SweepError: The folder's state cannot be read, or the trials cannot go on as asked.
    """
    doing("reading the state of the sweep")
    from ray import tune

    from experiments.durability import SweepKeeper
    from experiments.mlflow_logger import MLflowLogger
    from experiments.progress import Progress
    from experiments.resumption import ResumedSearch, plan_changes
    from experiments.search import total_trials
    from experiments.user_callbacks import GuardedCallback, callbacks_of

    own = callbacks_of(spec)
    trainable = sweep_trainable(spec)
    try:
        tuner = tune.Tuner.restore(str(folder), trainable=trainable)
    except Exception as error:  # unpickling a damaged file may raise anything
        raise SweepError(f"{folder}: the state of the sweep cannot be read: {error}") from error
    # Tune offers no public way to see what a restored Tuner holds.
    internal: Any = tuner._local_tuner
    if internal._experiment_analysis is None:  # Tune swallows the reason
        raise SweepError(f"{folder}: the state of the sweep cannot be read")
    run_config, tune_config = internal.get_run_config(), internal._tune_config
    mlflow = next((c for c in run_config.callbacks if isinstance(c, MLflowLogger)), None)
    if mlflow is not None and without_credentials(tracking_uri(spec)) == mlflow.tracking_uri:
        mlflow.tracking_uri = tracking_uri(spec)  # its credentials are not saved
    count = total_trials(spec, spec_space(spec))
    limiter = tune_config.search_alg
    changes = plan_changes(
        internal._experiment_analysis.trials,
        num_trials=count,
        num_samples=spec.num_samples,
        stop=spec.stop,
        max_concurrent=_resumed_limit(limiter, spec, trainable),
        errored=errored,
    )
    tune_config.search_alg = ResumedSearch(limiter, changes)
    if mlflow is not None:
        mlflow.start_anew(changes.restarted)
    next(c for c in run_config.callbacks if isinstance(c, SweepKeeper)).apply(changes)
    progress = _progress(spec, count, console)
    run_config.callbacks = [
        progress if isinstance(c, Progress) else c
        for c in run_config.callbacks
        if not isinstance(c, GuardedCallback)
    ] + own
    if study is not None:
        limiter.searcher.copy = study
    return PreparedSweep(tuner, mlflow, count, study)


def _resumed_limit(limiter: Any, spec: SweepSpec, trainable: Any) -> int:
    """How many trials run at a time from now on: the cluster may be another one than before."""
    from experiments.search_limit import TogetherLimiter

    if isinstance(limiter, TogetherLimiter):  # its population is all alive, whatever the cluster
        return limiter.max_concurrent
    return max_concurrent_trials(spec, trainable)


def _progress(spec: SweepSpec, count: int, console: Console | None) -> Progress:
    from experiments.progress import Progress

    return Progress(
        spec.objective.metric,
        spec.objective.mode,
        total_trials=count,
        name=spec.name,
        console=console,
        seeds=len(spec.seeds.values) if spec.seeds else 1,
        time_budget_s=spec.time_budget_s,
    )


def max_concurrent_trials(spec: SweepSpec, trainable: Any) -> int:
    """How many trials run at a time: the spec's number, or as many as the CPUs and GPUs hold."""
    if spec.max_concurrent is not None:
        return spec.max_concurrent
    import ray

    available = live_nodes() if ray.is_initialized() else [local_node(spec.resources)]
    needed = trial_resources(trainable, spec, spec_space(spec))
    fits = [total(available, name) // amount for name, amount in needed.items() if amount > 0]
    return max(1, int(min(fits, default=1)))


class RefuseRestart(logging.Filter):
    """Ends a resume whose state Tune cannot read.

    Tune logs that and then starts the whole sweep anew in the same folder. The record is the only
    sign it gives, so that is where we stop it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Raise on Tune's notice that the state could not be restored."""
        if str(record.msg).startswith("Failed to restore the run state"):
            cause = record.exc_info[1] if record.exc_info else None
            raise SweepError(f"the state of the sweep cannot be read: {cause}")
        return True

    def __enter__(self) -> RefuseRestart:
        _controller_logger().addFilter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _controller_logger().removeFilter(self)


def _controller_logger() -> logging.Logger:
    return logging.getLogger("ray.tune.execution.tune_controller")


def _mlflow_logger(spec: SweepSpec, spec_file: Path) -> MLflowLogger:
    from experiments.mlflow_logger import MLflowLogger

    return MLflowLogger(
        tracking_uri(spec),
        spec.name,
        experiment_name=spec.mlflow.experiment_name,
        artifact_location=artifact_location(spec),
        tags={"tunescape.spec": spec.name, **spec.mlflow.tags},
        params=_sweep_params(spec),
        spec_path=str(spec_file),
        metric=spec.objective.metric,
        mode=spec.objective.mode,
        config=spec.config,
        log_model=spec.mlflow.log_model,
        register_as=spec.mlflow.register_as,
        system_metrics=spec.mlflow.system_metrics,
        max_pending_metrics=spec.mlflow.max_pending_metrics,
    )


def _sweep_params(spec: SweepSpec) -> dict[str, Any]:
    """What describes the sweep as a whole; the trials' settings are in the child runs."""
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
    """Whether a trainable has the setting `seed`."""
    config_class = getattr(trainable, "config_class", None)
    return config_class is not None and "seed" in config_class.settings()


# Functions of the module: they travel in Tune's pickled state.
def _trial_name(trial: Any) -> str:
    return f"{trial.trainable_name}_{trial.trial_id}"


def _trial_folder(trial: Any) -> str:
    number = str(trial.experiment_tag or "0").split("_")[0]
    return f"{int(number):04d}_{trial.trial_id}" if number.isdigit() else str(trial.trial_id)
