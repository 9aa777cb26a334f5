"""The Ray that a sweep runs on: one started for it on this machine, or a cluster that is joined."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from experiments.activity import doing
from experiments.cluster.ray_watch import watched_ray
from experiments.errors import PreflightError, first_line
from experiments.internals.ray import lean_ray
from experiments.spec.ray_names import check_address
from experiments.spec.schema import Resources
from experiments.stop_signals import kept_from_ray
from experiments.workers.warm import AT_START, warm_workers
from trainables.core.logs import VARIABLE
from trainables.runtime.actors.own_ray import on_loopback
from tunescape.shared_names import needs_room_in_workers

# Why each is set, in this process and, through Ray, in its workers:
_ENVIRONMENT = {
    # Paths in a config mean what they meant where the sweep was started.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # CSV drops late metrics and TensorBoard syncs the disk at every result: we add JSON ourselves.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # Tune's own progress output; ours is a callback.
    "RAY_AIR_NEW_OUTPUT": "0",
    # A result without the objective is the searcher's and scheduler's business, not a crash.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # More than 1 swaps two arguments in Tune, and holds results back from the scheduler.
    "TUNE_RESULT_BUFFER_LENGTH": "1",
    # Snapshots are forced by checkpoints; that is meant.
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
_LEVELS = {1: "INFO", 2: "DEBUG"}  # of trials, by verbosity
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    # A worker for each CPU would start with Ray, beside the sweep's own start, and never be used:
    # Tune gives trials an environment of their own, and so their workers.
    "RAY_prestart_worker_first_driver": "0",
    **AT_START,
}


def prepare_environment() -> None:
    """Set the environment variables that Tune and Ray read. Call it before Ray starts."""
    os.environ.update(_ENVIRONMENT)
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


@contextmanager
def sweep_environment() -> Iterator[None]:
    """Prepare the environment while a sweep runs: a plain Tuner afterwards is Tune's own."""
    names = [*_ENVIRONMENT, *_DEFAULTS]
    before = {name: os.environ.get(name) for name in names}
    prepare_environment()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def ray_session(
    resources: Resources, *, verbosity: int = 0, shows_logs: bool = False
) -> Iterator[None]:
    """Use the Ray that runs already, or start or join one and leave it at the end.

    Args:
        resources: The spec's `resources`.
        verbosity: 0 is quiet, 1 shows Tune's log and what trials log at the level INFO, 2 at DEBUG,
            with trials' tracebacks. A level of a trial's own goes first.
        shows_logs: Show what trials log in any case.

    Raises:
        PreflightError: The cluster cannot be reached.
    """
    import ray

    _set_log_levels(verbosity)
    follows = shows_logs or verbosity > 0
    if ray.is_initialized():
        yield
        return
    try:
        if resources.address is not None:  # `--address` of a resume comes unchecked
            check_address(resources.address)
    except ValueError as error:
        raise PreflightError(f"resources.address = {resources.address!r}: {error}") from None
    options: dict[str, Any] = {"log_to_driver": follows, "logging_level": logging.ERROR}
    if resources.address is None:
        options |= {
            "address": "local",
            "num_cpus": resources.num_cpus or usable_cpus(),
            "num_gpus": resources.num_gpus,
            "resources": dict(resources.custom) or None,
        }
    else:
        options["address"] = resources.address
        if (hook := needs_room_in_workers()) is not None:  # they inherit nothing from this process
            options["runtime_env"] = {"worker_process_setup_hook": hook}
        if verbosity:
            variables = {VARIABLE: _LEVELS[min(verbosity, 2)]}
            options["runtime_env"] = {**options.get("runtime_env", {}), "env_vars": variables}
    is_ours = resources.address is None
    reach: AbstractContextManager[dict[str, Any]] = on_loopback() if is_ours else nullcontext({})
    doing("starting Ray" if is_ours else f"joining Ray at {resources.address}")
    try:
        with (
            kept_from_ray(),
            _trial_log_level(verbosity),
            lean_ray(follow_logs=follows),
            warm_workers() if is_ours else nullcontext(),
            reach as own,
        ):
            ray.init(**options, **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = resources.address or "this machine"
        raise PreflightError(f"Ray on {where} cannot be used: {first_line(error)}") from error
    if resources.address is None:
        with watched_ray():
            yield
        return
    try:
        yield
    finally:
        ray.shutdown()


def available_nodes(resources: Resources) -> list[dict[str, float]]:
    """Return the resources of each node of the Ray that runs, or else of this machine."""
    import ray

    from trainables.runtime.actors.feasibility import live_nodes

    return live_nodes() if ray.is_initialized() else [local_node(resources)]


def local_node(resources: Resources) -> dict[str, float]:
    """Return the resources that a Ray started on this machine would have, without starting it."""
    gpus = resources.num_gpus
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    cpus = resources.num_cpus or usable_cpus()
    return {"CPU": float(cpus), "GPU": float(gpus), **resources.custom}


def usable_cpus() -> int:
    """Return how many CPUs this process may use: its affinity and its container's quota count."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cpus = os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text().split()
        cpus = min(cpus, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no such file, or `max`: no quota
        pass
    return max(1, cpus)


@contextmanager
def _trial_log_level(verbosity: int) -> Iterator[None]:
    """What trials that set no `log_level` log, in the workers of a Ray that starts meanwhile."""
    before = os.environ.get(VARIABLE)
    if verbosity:
        os.environ[VARIABLE] = _LEVELS[min(verbosity, 2)]
    try:
        yield
    finally:
        if verbosity and before is None:
            del os.environ[VARIABLE]
        elif before is not None:
            os.environ[VARIABLE] = before


def _set_log_levels(verbosity: int) -> None:
    level = logging.INFO if verbosity else logging.ERROR
    logging.getLogger("ray.tune").setLevel(level)
    # "Trials did not complete: …" repeats what the summary says.
    logging.getLogger("ray.tune.tune").setLevel(level if verbosity else logging.CRITICAL)
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "1" if verbosity >= 2 else "0"
