"""Run or resume a sweep: checks first, then Tune, then what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from analysis.home import expanded
from analysis.reachable import check_tracking
from analysis.schedulers import POPULATION, compares_settings
from experiments.activity import doing, shown_activity
from experiments.cluster import local_node, ray_session, sweep_environment
from experiments.disk_space import full_disk
from experiments.environment_file import note_environment
from experiments.errors import (
    ExperimentError,
    MachineFailed,
    PreflightError,
    SweepError,
    SweepStopped,
)
from experiments.extension import extended, write_spec
from experiments.interruption import RESULTS, TRACKED, Interruption
from experiments.paths import SPEC_FILE, saved_line, storage_dir, sweep_dir, tracking_uri
from experiments.preflight import check_places, check_resources, check_shared, check_storage
from experiments.progress_text import value_of
from experiments.ray_watch import closed_without_ray, lost_ray
from experiments.report_command import report_at_end
from experiments.schedulers.registry import kind_of
from experiments.schema import SweepSpec
from experiments.search_checks import notes
from experiments.seed_plan import sweep_trainable
from experiments.snapshot import reconcile
from experiments.spec import load_spec, read_spec, spec_space
from experiments.stop_signals import interrupted_status, received, stop_signals
from experiments.sweep_lock import sweep_lock
from experiments.trainable import resolve_trainable
from experiments.unsaved_sweep import remove_unsaved

if TYPE_CHECKING:
    from ray.tune import ResultGrid
    from rich.console import Console

    from analysis.best import BestCheckpoint
    from experiments.final import Final
    from experiments.resumption import Errored
    from experiments.study_storage import StudyCopy
    from experiments.tuner import PreparedSweep


@dataclass
class Outcome:
    """How a sweep ended.

    Attributes:
        results: Tune's results.
        folder: The sweep's folder.
        interrupted: Whether Ctrl-C, or a signal, cut it off.
        failures: Trial id and cause of each trial that failed.
        num_trials: Trials that were begun.
        best: The exported policy, if there is one.
        checkpoint: The best checkpoint, of a trainable of one's own that has no policies.
        curves: The picture of the learning curves, if there is one.
        effects: The picture of the settings' effects, if there is one.
        lineage: The picture of the population's lineage, if there is one.
        pareto: The table of the Pareto-optimal trials, if there are several objectives.
        pareto_picture: Its picture, if there are two.
        note: Why there is no exported policy, if there is none.
        final: What the held-out seeds said, if the spec has a `final`.
        model: URI of the best policy as an MLflow model, by its registered name if it has one.
        report: The page about all of it, if it could be written.
        succeeded: Whether there is what the sweep was for: see `_succeeded`.
    """

    results: ResultGrid
    folder: Path
    interrupted: bool
    failures: list[tuple[str, str]] = field(default_factory=list)
    num_trials: int = 0
    best: Path | None = None
    checkpoint: BestCheckpoint | None = None
    curves: Path | None = None
    effects: Path | None = None
    lineage: Path | None = None
    pareto: Path | None = None
    pareto_picture: Path | None = None
    note: str = ""
    final: Final | None = None
    model: str = ""
    report: Path | None = None
    succeeded: bool = False

    @property
    def all_failed(self) -> bool:
        """Whether no trial succeeded."""
        return self.num_trials > 0 and len(self.failures) == self.num_trials


def run(spec: SweepSpec) -> ResultGrid:
    """Run a sweep and return Tune's results.

    Starts a Ray on this machine (or joins `resources.address`) unless one runs already, and leaves
    it at the end.

    Raises:
        SpecError: The spec asks for what is not supported.
        PreflightError: The machine, the storage or the cluster cannot run it.
        SystemExit: SIGTERM or SIGHUP ended it; what was reached is saved.
    """
    return _results(run_sweep(spec))


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
def _logs(spec: SweepSpec) -> bool:
    """Whether the spec itself asks trials to tell what happens."""
    return spec.config.get("log_level") in ("INFO", "DEBUG")


def run_sweep(spec: SweepSpec, *, console: Console | None = None, verbosity: int = 0) -> Outcome:
    """Like `run`, with how the sweep ended.

    Args:
        spec: The sweep.
        console: Where progress and warnings are shown; by default the terminal's stderr.
        verbosity: 0 is quiet, 1 shows Tune's log and what trials log at the level INFO, 2 at DEBUG,
            with trials' tracebacks.
    """
    import ray

    from experiments.search import study_copy
    from experiments.tuner import prepare_tuner
    from experiments.warm_start import load_history

    console = console or _default_console()
    if spec.resources.address is None and not ray.is_initialized():  # known before it is started
        check_resources(sweep_trainable(spec), spec, spec_space(spec), [local_node(spec.resources)])
    check_places(spec)
    check_storage(storage_dir(spec), sweep_dir(spec))
    reachable = _check_tracking(spec, console)
    history = load_history(spec, spec_space(spec))
    for line in [*history.lines, *notes(spec, spec_space(spec))]:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    study = study_copy(spec)
    with (
        shown_activity(console),
        _closed_unless_begun(study) as unused,
        ray_session(spec.resources, verbosity=verbosity, shows_logs=_logs(spec)),
    ):
        _check_cluster(spec)
        if kind_of(spec.scheduler).shares_cpus:
            console.print(
                "resource_changing: every trial has a process of its own (reuse_actors is off)",
                highlight=False,
            )
        with sweep_lock(sweep_dir(spec)):
            check_storage(storage_dir(spec), sweep_dir(spec))  # another may have begun it since
            sweep = prepare_tuner(spec, console=console, history=history, study=study)
            _tell(sweep, reachable)
            unused.pop_all()
            return _fit(spec, sweep, sweep_dir(spec), _Ways(console, verbosity))


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
    """Like `resume`, with how the sweep ended.

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
    from experiments.search import study_copy
    from experiments.tuner import RefuseRestart, restore_tuner

    if retry_errored and restart_errored:
        raise SweepError("failed trials either go on (retry_errored) or start anew, not both")
    errored: Errored = "retry" if retry_errored else "restart" if restart_errored else "keep"
    console = console or _default_console()
    path = expanded(folder).absolute()
    saved = load_sweep_spec(path, check=True)
    spec = extended(saved, num_samples, stop)
    if _was_never_saved(path):
        if address:
            spec.resources.address = address
        return run_sweep(spec, console=console, verbosity=verbosity)
    with sweep_lock(path):
        resources = spec.resources.model_copy(update={"address": address} if address else {})
        reachable = _check_tracking(spec, console)
        study = study_copy(spec, resumed=True)
        with (
            shown_activity(console),
            _closed_unless_begun(study) as unused,
            ray_session(resources, verbosity=verbosity, shows_logs=_logs(spec)),
        ):
            _check_cluster(spec)
            sweep = restore_tuner(spec, path, errored=errored, console=console, study=study)
            if spec != saved:
                write_spec(spec, path / SPEC_FILE)
            _tell(sweep, reachable)
            unused.pop_all()
            with RefuseRestart():
                return _fit(spec, sweep, path, _Ways(console, verbosity, errored != "keep"))


def _was_never_saved(folder: Path) -> bool:
    """Whether a sweep was cut off before Tune saved anything; what there is of it is removed."""
    with sweep_lock(folder):
        reconcile(folder)
        if any(folder.glob("experiment_state-*.json")):
            return False
        remove_unsaved(folder)
        return True


def _check_cluster(spec: SweepSpec) -> None:
    check_shared(storage_dir(spec))
    check_resources(sweep_trainable(spec), spec, spec_space(spec))


def load_sweep_spec(folder: Path, *, check: bool = False) -> SweepSpec:
    """The spec of a sweep's folder, with `storage` and `name` where the folder is now.

    Args:
        folder: The sweep's folder.
        check: Whether its trainable and environment must be there, as for running it.

    Raises:
        SweepError: It is not a sweep's folder, or was renamed to what no sweep can be called.
    """
    folder = expanded(folder).absolute()
    if not folder.is_dir():
        raise SweepError(f"{folder}: no such folder; expected that of a sweep, e.g. runs/<name>")
    if not (folder / SPEC_FILE).is_file():
        raise SweepError(f"{folder} is not a sweep's folder: it has no {SPEC_FILE}")
    spec = (load_spec if check else read_spec)(folder / SPEC_FILE)
    depth = spec.name.count("/") + 1
    spec.storage = str(folder.parents[depth - 1])
    try:
        spec.name = "/".join(folder.parts[-depth:])
    except ValidationError as error:
        raise SweepError(
            f"{folder}: its name is no sweep's, rename it: {error.errors()[0]['msg']}"
        ) from None
    return spec


def _closed_unless_begun(study: StudyCopy | None) -> ExitStack:
    """Closes the copy of the study if the sweep does not begin; one that does closes it itself."""
    unused = ExitStack()
    if study is not None:
        unused.callback(study.close)
    return unused


@dataclass(frozen=True)
class _Ways:
    """How a sweep and its final are run and shown."""

    console: Console
    verbosity: int
    retry_errored: bool = False


def _fit(spec: SweepSpec, sweep: PreparedSweep, folder: Path, ways: _Ways) -> Outcome:
    import ray

    status = "KILLED"

    def close() -> None:
        if sweep.study is not None:
            sweep.study.close()
        if sweep.mlflow is not None:
            sweep.mlflow.close(status)

    note_environment(folder, ray.cluster_resources())
    stop = Interruption(folder, ways.console, unless=lost_ray)
    with closed_without_ray(folder, close), stop.writing():
        try:
            doing("starting trials")
            results, interrupted = _interruptible(sweep.tuner.fit, stop)
            if interrupted and lost_ray():
                raise KeyboardInterrupt
            if interrupted and not received():
                stop.say(f"The trials have ended. Writing {RESULTS} …")
            outcome = _outcome(results, folder, interrupted)
            if spec.final is not None and not outcome.interrupted and not outcome.all_failed:
                _hold_final(spec, sweep, outcome, ways)
            if outcome.interrupted and received():
                return outcome  # who ends the process counts the seconds: pictures can wait
            doing("writing what came out")
            if not outcome.all_failed:
                _export(spec, sweep, outcome)
            outcome.succeeded = _succeeded(spec, outcome)
            status = _mlflow_status(outcome)
            if not outcome.all_failed:
                _draw(spec, outcome)
                _draw_effects(spec, outcome)
                _draw_lineage(spec, outcome)
                _write_pareto(spec, outcome)
            outcome.report = report_at_end(folder) if outcome.num_trials else None
            stop.unsaved = TRACKED
            if sweep.mlflow is not None:
                doing("finishing the MLflow run")
                sweep.mlflow.log_results(str(folder))
                sweep.mlflow.close(status)  # waits until all is written, the model too
                outcome.model = sweep.mlflow.model_uri
            return outcome
        except KeyboardInterrupt:
            status = "KILLED"
            if lost_ray() and not received():
                raise MachineFailed(lost_ray(), saved_line(folder)) from None
            raise KeyboardInterrupt(saved_line(folder)) from None
        except MachineFailed as error:  # of the final
            status = "KILLED"
            raise MachineFailed(error.cause, saved_line(folder)) from error
        except ExperimentError:
            status = "FAILED"
            raise
        except Exception as error:
            status = "FAILED"
            if isinstance(_first(error), KeyboardInterrupt):  # in the middle of an import, say
                status = "KILLED"
                raise KeyboardInterrupt(saved_line(folder)) from None
            cause = _first_cause(error)
            if failed := lost_ray() or full_disk([cause], folder):
                status = "KILLED"
                raise MachineFailed(failed, saved_line(folder)) from error
            raise SweepStopped(f"the sweep stopped: {cause}; {saved_line(folder)}") from error
        finally:
            close()


def _hold_final(spec: SweepSpec, sweep: PreparedSweep, outcome: Outcome, ways: _Ways) -> None:
    """Run the best configurations on held-out seeds."""
    from experiments.final import run_final

    outcome.final = run_final(
        spec,
        outcome.results,
        outcome.folder,
        linked_to=sweep.mlflow.parent_run_id if sweep.mlflow is not None else None,
        retry_errored=ways.retry_errored,
        console=ways.console,
        verbosity=ways.verbosity,
    )
    outcome.interrupted = outcome.final.interrupted


def _interruptible(fit: Callable[[], ResultGrid], stop: Interruption) -> tuple[ResultGrid, bool]:
    """Call `fit`; tell whether Ctrl-C ended it.

    Tune puts its own handler in place of the one it finds, and puts that back when it is used. It
    does not when it is not used, and would swallow every later Ctrl-C.
    """
    with stop.spoken():
        results = fit()
        return results, stop.pressed


def _outcome(results: ResultGrid, folder: Path, interrupted: bool) -> Outcome:
    from experiments.trial_info import error_cause

    trials = list(results._experiment_analysis.trials or [])
    failures = [(trial.trial_id, error_cause(trial)) for trial in trials if trial.status == "ERROR"]
    return Outcome(results, folder, interrupted, failures, len(trials))


def _succeeded(spec: SweepSpec, outcome: Outcome) -> bool:
    """Whether a sweep left what it was run for.

    That is a policy in `best/`, and the winner of a final if the spec has one. Where no policy is
    to be had, of a trainable of one's own or without checkpoints, it is a finished trial whose
    objective is a number.
    """
    if outcome.interrupted or (spec.final and not (outcome.final and outcome.final.winner)):
        return False
    if outcome.best is not None or _leaves_policies(spec):
        return outcome.best is not None
    return any(
        trial.status == "TERMINATED" and value_of(trial, spec.objective.metric) is not None
        for trial in outcome.results._experiment_analysis.trials or []
    )


def _leaves_policies(spec: SweepSpec) -> bool:
    from trainables.algorithm import Algorithm

    saves = spec.checkpoint.at_end or spec.checkpoint.frequency > 0
    return saves and issubclass(resolve_trainable(spec.trainable), Algorithm)


def _mlflow_status(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "KILLED"
    return "FINISHED" if outcome.succeeded else "FAILED"


def _export(spec: SweepSpec, sweep: PreparedSweep, outcome: Outcome) -> None:
    """Copy the best checkpoint's policy to `best/`, and tell MLflow."""
    from analysis.best import best_checkpoint
    from analysis.checkpoints import is_of_policy
    from analysis.export import export_best
    from analysis.records import ResultsError
    from experiments.paths import BEST_FOLDER

    metric, mode = spec.objective.metric, spec.objective.mode
    if outcome.final is not None and outcome.final.winner is not None:
        _export_winner(spec, sweep, outcome, outcome.final)
        return
    try:
        best = best_checkpoint(outcome.results, metric, mode)
        if not is_of_policy(best.path):
            _keep_checkpoint(sweep, outcome, best)
            return
        outcome.best = export_best(outcome.results, outcome.folder / BEST_FOLDER, metric, mode)
    except ResultsError as error:
        outcome.note = str(error)
        return
    if sweep.mlflow is not None:
        sweep.mlflow.log_best(best.trial.trial_id, str(outcome.best), checkpoint=str(best.path))


def _keep_checkpoint(sweep: PreparedSweep, outcome: Outcome, best: BestCheckpoint) -> None:
    """Note the best checkpoint of a trainable of one's own, which has no policy."""
    outcome.checkpoint = best
    if sweep.mlflow is not None:
        sweep.mlflow.log_best(best.trial.trial_id, None, checkpoint=str(best.path))


def _export_winner(spec: SweepSpec, sweep: PreparedSweep, outcome: Outcome, final: Final) -> None:
    """Copy the policy of the winner's median held-out seed to `best/`, and tell MLflow."""
    from analysis.checkpoints import is_of_policy
    from analysis.export import export_checkpoint
    from experiments.paths import BEST_FOLDER

    won, metric = final.winner, spec.objective.metric
    assert won is not None
    checkpoint = won.checkpoint(metric, spec.name)
    if checkpoint is None:
        outcome.note = "the held-out runs left no checkpoint; set checkpoint.at_end"
        return
    if not is_of_policy(checkpoint.path):
        _keep_checkpoint(sweep, outcome, checkpoint)
        return
    outcome.best = export_checkpoint(
        checkpoint,
        outcome.folder / BEST_FOLDER,
        metric,
        spec.objective.mode,
        said={
            "winner_of_final": won.trial_id,
            "seed": won.median_seed,
            "held_out_iqm": won.held_out,
            "held_out_seeds": len(won.values),
        },
    )
    if sweep.mlflow is not None:
        sweep.mlflow.log_best(won.trial_id, str(outcome.best), checkpoint=str(checkpoint.path))


def _draw(spec: SweepSpec, outcome: Outcome) -> None:
    """Draw the learning curves into the sweep's folder."""
    from analysis.plots import plot_learning_curves
    from analysis.records import ResultsError
    from experiments.paths import CURVES_FILE

    picture = outcome.folder / CURVES_FILE
    try:
        plot_learning_curves(
            outcome.results, spec.objective.metric, picture, mode=spec.objective.mode
        )
    except ResultsError:  # no result to draw; why is told with the leaderboard
        return
    outcome.curves = picture


def _draw_effects(spec: SweepSpec, outcome: Outcome) -> None:
    """Draw what each setting with few levels did to the objective, where the sweep can tell."""
    if not compares_settings(spec.model_dump()):
        return
    from analysis.effects import effects_frame
    from analysis.effects_plot import plot_effects
    from analysis.records import ResultsError
    from experiments.paths import EFFECTS_FILE

    metric, mode = spec.objective.metric, spec.objective.mode
    try:
        effects = effects_frame(outcome.results, metric, mode)
        if not effects.empty:
            outcome.effects = plot_effects(effects, out=outcome.folder / EFFECTS_FILE)
    except ResultsError:  # no result; why is told with the leaderboard
        return


def _draw_lineage(spec: SweepSpec, outcome: Outcome) -> None:
    """Draw who went on from whom in a population, and the winner's settings."""
    if spec.scheduler.algorithm not in POPULATION:
        return
    from analysis.lineage_plot import plot_lineage
    from analysis.records import ResultsError
    from experiments.paths import LINEAGE_PICTURE

    metric, mode = spec.objective.metric, spec.objective.mode
    picture = outcome.folder / LINEAGE_PICTURE
    try:
        outcome.lineage = plot_lineage(outcome.folder, metric, picture, mode=mode)
    except ResultsError:  # no trial was replaced, or none had a result
        return


def _write_pareto(spec: SweepSpec, outcome: Outcome) -> None:
    """With several objectives: the trials that no other one dominates."""
    if len(spec.objectives) < 2:
        return
    from analysis.pareto import pareto_front, plot_pareto
    from analysis.records import ResultsError
    from experiments.paths import PARETO_FILE, PARETO_TABLE

    objectives = [(o.metric, o.mode) for o in spec.objectives]
    table = outcome.folder / PARETO_TABLE
    try:
        pareto_front(outcome.results, objectives).to_csv(table, index=False)
        outcome.pareto = table
        if len(objectives) == 2:
            picture = outcome.folder / PARETO_FILE
            outcome.pareto_picture = plot_pareto(outcome.results, objectives, picture)
    except ResultsError:  # no result; why is told with the leaderboard
        return


def _check_tracking(spec: SweepSpec, console: Console) -> bool:
    """Warn of a tracking server that does not answer; tells whether it does."""
    if not spec.mlflow.enabled:
        return True
    doing("opening MLflow")
    problem = check_tracking(tracking_uri(spec))
    if problem is None:
        return True
    if spec.mlflow.required:
        raise PreflightError(f"{problem} (and mlflow.required is true)")
    console.print(
        f"Warning: {problem}; the sweep runs without it, and all results are kept in "
        f"{sweep_dir(spec)}",
        style="yellow",
        highlight=False,
        soft_wrap=True,
    )
    return False


def _tell(sweep: PreparedSweep, reachable: bool) -> None:
    """Spare the user a second warning about the same tracking server."""
    if sweep.mlflow is not None:
        sweep.mlflow.known_unreachable = not reachable


def _first_cause(error: BaseException) -> str:
    """One line on what went wrong first: Tune's own cleaning up may have failed after it."""
    error = _first(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _first(error: BaseException) -> BaseException:
    while error.__context__ is not None:
        error = error.__context__
    return error


def _default_console() -> Console:
    from experiments.terminal import make_console

    return make_console(stderr=True)
