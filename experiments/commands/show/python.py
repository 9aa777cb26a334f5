"""A spec as the Python that a person would write with Tune: `tunescape show SPEC --as python`."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter

from analysis import leaderboard
from experiments.commands.show.callbacks import callback_calls, environment_text
from experiments.commands.show.python_code import (
    Call,
    Imported,
    Name,
    call,
    imports_of,
    render,
)
from experiments.commands.show.scheduler import check_source, scheduler_call, written
from experiments.durability.keeper import durable
from experiments.errors import SpecError
from experiments.monitor.trial_files import file_loggers
from experiments.running.tuner import takes_seed
from experiments.schedulers.registry import scheduler_kind
from experiments.search.limit import TogetherLimiter
from experiments.search.registry import search_kind
from experiments.seeds.multi_seed import with_seeds
from experiments.spec.construction import construction
from experiments.spec.function_trainable import is_function_class
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import resolve_trainable
from experiments.sweep.sweep import Sweep
from experiments.tracking.callback import MLflowCallback
from search_spaces import SearchSpace
from search_spaces.points import searched_point

_SPACE = Name("space")
_STANDARD = {"os.environ": "import os", "Path(": "from pathlib import Path"}
_LIBRARIES = {"ray.init": "import ray", "yaml.safe_load": "import yaml"}


def python_source(spec: SweepSpec) -> str:
    """A script that runs the sweep with a plain `tune.Tuner`.

    The same seed gives the same configurations. What only `tunescape run` does is left out: its
    progress table, the export of the best policy, the checks of the machine.

    Raises:
        SpecError: The spec has a part that needs more of `experiments` than a Tuner holds.
    """
    _refuse(spec)
    sweep = Sweep.of(spec)
    trainable: Any = resolve_trainable(spec.trainable)
    space = Call(SearchSpace.parse, (spec.search_space,), {}, "SearchSpace.parse")
    best = call(leaderboard, Name("results"), spec.objective.metric, mode=spec.objective.mode)
    statements: list[tuple[str, Any]] = [
        ("space = ", space if spec.search_space else call(SearchSpace)),
        ("search = ", _search(sweep)),
        ("scheduler, keeper = ", call(durable, scheduler_call(spec, trainable, sweep.num_trials))),
        ("tuner = ", _tuner(sweep, trainable)),
        ("results = ", Call(tune.Tuner, (), {}, "tuner.fit")),
        ("", Call(print, (best,), {}, "print")),
    ]
    options = spec.resources.model_dump(include={"address", "num_cpus", "num_gpus"})
    options["resources"] = spec.resources.custom or None
    if any(value is not None for value in options.values()):
        given = {key: value for key, value in options.items() if value is not None}
        statements.insert(0, ("", Call(ray.init, (), given, "ray.init")))
    if _own_files(spec):
        statements.insert(0, ('os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = ', "1"))
    body = "\n".join(before + render(value, 0, len(before)) for before, value in statements)
    standard = [f"{line}\n" for word, line in _STANDARD.items() if word in body]
    libraries, ours = imports_of(*(value for _, value in statements), SearchSpace)
    lines = [line for word, line in _LIBRARIES.items() if word in body]
    libraries = "\n".join(line for line in (*lines, "from ray import tune", libraries) if line)
    check = check_source(spec, trainable)
    if check:
        ours, body = f"{ours}\n", f"{check}\n\n{body}"
    parts = [f'"""{_title(spec)}"""', "".join(standard).rstrip(), libraries, ours, body]
    return "\n\n".join(part for part in parts if part) + "\n"


def _refuse(spec: SweepSpec) -> None:
    """A script that leaves out something that changes the trials would not be the same sweep."""
    parts = {
        "search.warm_start": getattr(spec.search, "warm_start", None),
        "search.study_storage": getattr(spec.search, "study_storage", None),
    }
    for key, value in parts.items():
        if value:
            raise SpecError(
                f"{spec.name}: {key} cannot be shown as Python yet; in Python use "
                "experiments.build_tuner(load_spec(...))"
            )


def _title(spec: SweepSpec) -> str:
    """What the script does, and which part of the spec it leaves to `tunescape run`."""
    title = f"The sweep {spec.name} with Ray Tune."
    if spec.final is not None:
        title += " `final` is not part of it: `tunescape run` does that when the sweep has ended."
    return title


def _search(sweep: Sweep) -> Call:
    spec, count = sweep.spec, sweep.num_trials
    points = [
        construction(searched_point, _SPACE, point)
        for point in getattr(spec.search, "points_to_evaluate", [])
    ]
    searcher = written(search_kind(spec.search).construction(spec, _SPACE, points))
    alive = scheduler_kind(spec.scheduler).alive(count, sweep.at_once)
    if alive is not None:
        return call(TogetherLimiter, searcher, alive, count)
    return call(ConcurrencyLimiter, searcher, max_concurrent=sweep.at_once)


def _tuner(sweep: Sweep, trainable: Any) -> Call:
    spec, count = sweep.spec, sweep.num_trials
    metric, mode = spec.objective.metric, spec.objective.mode
    config = dict(spec.config)
    if spec.seed is not None and spec.seeds is None and takes_seed(trainable):
        config.setdefault("seed", spec.seed)
    waits = scheduler_kind(spec.scheduler).alive(count, 1) is not None
    tune_config = Call(
        tune.TuneConfig,
        (),
        {
            "metric": metric,
            "mode": mode,
            "search_alg": Name("search"),
            "scheduler": Name("scheduler"),
            "num_samples": count + 1 if waits else count,  # see TogetherLimiter
            "time_budget_s": spec.time_budget_s,
            "reuse_actors": bool(spec.resources.reuse_actors),
        },
        "tune.TuneConfig",
    )
    checkpoints = Call(
        tune.CheckpointConfig,
        (),
        {
            "num_to_keep": spec.checkpoint.num_to_keep,
            "checkpoint_score_attribute": metric,
            "checkpoint_score_order": mode,
            "checkpoint_frequency": spec.checkpoint.frequency,
            "checkpoint_at_end": spec.checkpoint.at_end,
        },
        "tune.CheckpointConfig",
    )
    failures = Call(
        tune.FailureConfig, (), {"max_failures": spec.max_failures}, "tune.FailureConfig"
    )
    run_config = Call(
        tune.RunConfig,
        (),
        {
            "name": spec.name,
            "storage_path": _absolute(spec.storage, "as_posix"),
            "stop": spec.stop or None,
            "checkpoint_config": checkpoints,
            "failure_config": failures if spec.max_failures else None,
            "callbacks": _callbacks(spec),
        },
        "tune.RunConfig",
    )
    arguments = {"param_space": config, "tune_config": tune_config, "run_config": run_config}
    return Call(tune.Tuner, (_trials_of(sweep, trainable),), arguments, "tune.Tuner")


def _trials_of(sweep: Sweep, trainable: Any) -> Any:
    """What is trained, with the resources and seeds that the spec gives it."""
    spec = sweep.spec
    named = Imported(spec.trainable) if is_function_class(trainable) else trainable
    if spec.resources.per_trial:
        bundles = [spec.resources.per_trial]
        group = Call(tune.PlacementGroupFactory, (bundles,), {}, "tune.PlacementGroupFactory")
        named = Call(tune.with_resources, (named, group), {}, "tune.with_resources")
    if spec.seeds is None:
        return named
    over = sweep.trainable
    metric = over.objectives[0] if len(over.objectives) == 1 else list(over.objectives)
    seeds = list(over.seeds)
    return call(with_seeds, named, seeds, parallel=over.parallel, metric=metric)


def _callbacks(spec: SweepSpec) -> list[Any]:
    """The files of each trial that Tune would write otherwise or not at all, and MLflow."""
    files = [call(type(logger)) for logger in file_loggers(spec.loggers)]
    callbacks: list[Any] = [Name("keeper"), *(files if _own_files(spec) else [])]
    if spec.mlflow.enabled:
        callbacks.append(_mlflow(spec))
    return [*callbacks, *callback_calls(spec)]


def _mlflow(spec: SweepSpec) -> Call:
    uri, artifacts = _tracking(spec)
    options = ("log_model", "register_as", "system_metrics", "max_pending_metrics")
    return call(
        MLflowCallback,
        uri,
        experiment_name=spec.mlflow.experiment_name,
        artifact_location=artifacts,
        tags=spec.mlflow.tags,
        metric=spec.objective.metric,
        mode=spec.objective.mode,
        **{name: getattr(spec.mlflow, name) for name in options},
    )


def _own_files(spec: SweepSpec) -> bool:
    return any(name in ("csv", "tensorboard") for name in spec.loggers)


def _tracking(spec: SweepSpec) -> tuple[Any, Any]:
    """The tracking URI, and where artifacts are kept if the tracking server does not decide."""
    uri = spec.mlflow.tracking_uri
    reference = spec._references.get("mlflow.tracking_uri")
    if uri is not None and reference is not None:  # it may hold a password
        return environment_text(reference), None
    local = uri is None or uri.startswith("sqlite:")
    artifacts = _absolute(str(PurePath(spec.storage, "mlartifacts")), "as_uri") if local else None
    if uri is not None:
        return uri, artifacts
    database = PurePath(spec.storage, "mlflow.db").as_posix()
    if not database.startswith("~"):
        return f"sqlite:///{database}", artifacts
    return Name(f'"sqlite:///" + {_absolute(database, "as_posix")}'), artifacts


def _absolute(path: str, form: str) -> Name:
    home = ".expanduser()" if path.startswith("~") else ""
    return Name(f"Path({render(path)}){home}.absolute().{form}()")
