"""Run or resume a sweep: checks first, then Tune, then what came out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.home import expanded
from analysis.reachable import check_tracking
from experiments.activity import doing, shown_activity
from experiments.cluster.session import local_node, ray_session, sweep_environment
from experiments.durability.snapshot import reconcile
from experiments.errors import PreflightError, SweepError
from experiments.running.extension import extended, write_spec
from experiments.running.final import Final, run_final
from experiments.running.fit import RunOptions, fit
from experiments.running.making_room import make_room
from experiments.running.recorded_data import record_data
from experiments.running.results import Outcome
from experiments.running.sweep_lock import sweep_lock
from experiments.running.unsaved_sweep import remove_unsaved, was_saved
from experiments.schedulers.kind import scheduler_kind
from experiments.spec.paths import SPEC_FILE
from experiments.spec.schema import SweepSpec
from experiments.stop_signals import interrupted_status, received, stop_signals
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.preflight import check_places, check_resources, check_shared, check_storage
from experiments.sweep.sweep import Sweep
from experiments.terminal import make_console, say

if TYPE_CHECKING:
    from ray.tune import ResultGrid
    from rich.console import Console

    from experiments.durability.resumption import Errored
    from experiments.running.tuner import PreparedSweep
    from experiments.search.study_storage import StudyCopy


def run(spec: SweepSpec, *, overwrite: bool = False) -> ResultGrid:
    """Run a sweep and return Tune's results.

    Starts a Ray on this machine (or joins `resources.address`) unless one runs already, and leaves
    it at the end. A sweep of this name without any result is moved aside.

    Args:
        spec: The sweep.
        overwrite: Whether a sweep of this name that has results is deleted.

    Raises:
        SpecError: The spec asks for what is not supported.
        PreflightError: The machine, the storage or the cluster cannot run it.
        SystemExit: SIGTERM or SIGHUP ended it; what was reached is saved.
    """
    return _results(run_sweep(Sweep.of(spec), overwrite=overwrite))


def resume(
    folder: str | Path,
    *,
    num_samples: int | None = None,
    stop: Mapping[str, float] | None = None,
    retry_errored: bool = False,
    restart_errored: bool = False,
    address: str | None = None,
) -> ResultGrid:
    """Continue a sweep from its folder, with the searcher and scheduler it had.

    Finished trials are kept, and those that were cut off go on from their latest checkpoints.

    Args:
        folder: The sweep's folder, `runs/<name>`.
        num_samples: More samples than it has: the number of all of them.
        stop: A longer budget, by metric. Trials that finished go on from their last checkpoints,
            but those that a scheduler ended early.
        retry_errored: Whether failed trials go on from their latest checkpoints.
        restart_errored: Whether failed trials start anew.
        address: A cluster to join instead of the spec's.

    Raises:
        SweepError: The folder holds no sweep that can be continued as asked, or the sweep is
            running in another process.
        SystemExit: SIGTERM or SIGHUP ended it; what was reached is saved.
    """
    outcome = resume_sweep(
        folder,
        num_samples=num_samples,
        stop=stop,
        retry_errored=retry_errored,
        restart_errored=restart_errored,
        address=address,
    )
    return _results(outcome)


def _results(outcome: Outcome) -> ResultGrid:
    """Tune's results; ends the process if a signal asked for that."""
    if outcome.interrupted and received():
        raise SystemExit(interrupted_status())
    return outcome.results


@stop_signals()
@sweep_environment()
def run_sweep(
    sweep: Sweep,
    *,
    overwrite: bool = False,
    console: Console | None = None,
    verbosity: int = 0,
) -> Outcome:
    """Run a sweep as `run` does, and return how it ended.

    Args:
        sweep: The sweep.
        overwrite: See `run`.
        console: Where progress and warnings are shown; by default the terminal's stderr.
        verbosity: 0 is quiet, 1 shows Tune's log and what trials log at the level INFO, 2 at DEBUG,
            with trials' tracebacks.
    """
    import ray

    from experiments.running.tuner import prepare_tuner
    from experiments.running.warm_start import load_history
    from experiments.search.build import study_copy

    spec = sweep.spec
    console = console or make_console(stderr=True)
    if spec.resources.address is None and not ray.is_initialized():  # known before it is started
        check_resources(sweep, [local_node(spec.resources)])
    check_places(sweep)
    make_room(sweep.folder, console, overwrite=overwrite)
    check_storage(sweep.storage, sweep.folder)
    reachable = _check_tracking(sweep, console)
    history = load_history(sweep)
    for line in [*history.lines, *sweep.notes]:
        say(console, line)
    study = study_copy(spec)
    with shown_activity(console):
        record_data(spec, console)
    with (
        shown_activity(console),
        _closed_unless_begun(study) as unused,
        ray_session(spec.resources, verbosity=verbosity, shows_logs=_logs(spec.config)),
    ):
        sweep = sweep.on_this_ray()
        _check_cluster(sweep)
        if scheduler_kind(spec.scheduler).shares_cpus:
            say(
                console,
                "resource_changing: every trial has its own process (reuse_actors is off)",
            )
        with sweep_lock(sweep.folder):
            check_storage(sweep.storage, sweep.folder)  # another may have begun it since
            prepared = prepare_tuner(sweep, history, study, console=console, verbosity=verbosity)
            _tell(prepared, reachable)
            unused.pop_all()
            return fit(sweep, prepared, RunOptions(console, verbosity), _hold_final)


@stop_signals()
@sweep_environment()
def resume_sweep(
    folder: str | Path,
    *,
    num_samples: int | None = None,
    stop: Mapping[str, float] | None = None,
    retry_errored: bool = False,
    restart_errored: bool = False,
    address: str | None = None,
    console: Console | None = None,
    verbosity: int = 0,
) -> Outcome:
    """Continue a sweep as `resume` does, and return how it ended.

    Args:
        folder: See `resume`, as the next five.
        num_samples: See `resume`.
        stop: See `resume`.
        retry_errored: See `resume`.
        restart_errored: See `resume`.
        address: See `resume`.
        console: Where progress is shown.
        verbosity: See `run_sweep`.
    """
    from experiments.running.tuner import RefuseRestart, restore_tuner
    from experiments.search.build import study_copy

    if retry_errored and restart_errored:
        raise SweepError("failed trials either continue (retry_errored) or restart, not both")
    errored: Errored = "retry" if retry_errored else "restart" if restart_errored else "keep"
    console = console or make_console(stderr=True)
    path = expanded(folder).absolute()
    saved = load_sweep_spec(path, check=True)
    spec = extended(saved, num_samples, stop)
    if _was_never_saved(path):
        if address:
            spec.resources.address = address
        return run_sweep(Sweep.of(spec), console=console, verbosity=verbosity)
    with sweep_lock(path):
        resources = spec.resources.model_copy(update={"address": address} if address else {})
        sweep = Sweep.of(spec)
        reachable = _check_tracking(sweep, console)
        study = study_copy(spec, resumed=True)
        with (
            shown_activity(console),
            _closed_unless_begun(study) as unused,
            ray_session(resources, verbosity=verbosity, shows_logs=_logs(spec.config)),
        ):
            sweep = sweep.on_this_ray()
            _check_cluster(sweep)
            prepared = restore_tuner(
                sweep, errored=errored, console=console, verbosity=verbosity, study=study
            )
            if spec != saved:
                write_spec(spec, path / SPEC_FILE)
            _tell(prepared, reachable)
            unused.pop_all()
            with RefuseRestart():
                options = RunOptions(console, verbosity, errored != "keep")
                return fit(sweep, prepared, options, _hold_final)


def _hold_final(
    sweep: Sweep, outcome: Outcome, linked_to: str | None, options: RunOptions
) -> Final:
    """Run the best configurations on held-out seeds."""
    console, verbosity = options.console, options.verbosity
    retry = options.retry_errored
    return run_final(
        sweep,
        outcome.records,
        linked_to=linked_to,
        retry_errored=retry,
        run=partial(run_sweep, console=console, verbosity=verbosity),
        resume=partial(resume_sweep, retry_errored=retry, console=console, verbosity=verbosity),
    )


def _logs(config: Mapping[str, object]) -> bool:
    """Tell whether the spec itself asks trials to tell what happens."""
    return config.get("log_level") in ("INFO", "DEBUG")


def _was_never_saved(folder: Path) -> bool:
    """Tell whether a sweep was cut off before Tune saved a trial; if so, remove what there is."""
    with sweep_lock(folder):
        reconcile(folder)
        if was_saved(folder):
            return False
        remove_unsaved(folder)
        return True


def _check_cluster(sweep: Sweep) -> None:
    check_shared(sweep.storage)
    check_resources(sweep)


def _closed_unless_begun(study: StudyCopy | None) -> ExitStack:
    """Close the copy of the study if the sweep does not begin; one that does closes it itself."""
    unused = ExitStack()
    if study is not None:
        unused.callback(study.close)
    return unused


def _check_tracking(sweep: Sweep, console: Console) -> bool:
    """Warn of a tracking server that does not answer; tells whether it does."""
    if not sweep.spec.mlflow.enabled:
        return True
    doing("opening MLflow")
    problem = check_tracking(sweep.tracking_uri)
    if problem is None:
        return True
    if sweep.spec.mlflow.required:
        raise PreflightError(f"{problem} (and mlflow.required is true)")
    say(
        console,
        f"Warning: {problem}; the sweep runs without it, and all results are kept in "
        f"{sweep.folder}",
        style="yellow",
    )
    return False


def _tell(prepared: PreparedSweep, reachable: bool) -> None:
    """Spare the user a second warning about the same tracking server."""
    if prepared.mlflow is not None:
        prepared.mlflow.known_unreachable = not reachable
