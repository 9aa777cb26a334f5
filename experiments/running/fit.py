"""From prepared trials to an outcome: Tune runs them, a final follows, the results are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.activity import doing
from experiments.cluster.ray_watch import closed_without_ray, lost_ray
from experiments.disk_space import full_disk
from experiments.environment_file import note_environment
from experiments.errors import ExperimentError, MachineFailed, SweepStopped
from experiments.running.interruption import RESULTS, TRACKED, Interruption
from experiments.running.results import Outcome, outcome_of, write_results
from experiments.spec.paths import saved_line
from experiments.stop_signals import received

if TYPE_CHECKING:
    from ray.tune import ResultGrid
    from rich.console import Console

    from experiments.running.final import Final
    from experiments.running.tuner import PreparedSweep
    from experiments.sweep.sweep import Sweep


@dataclass(frozen=True)
class RunOptions:
    """Options that `run` and `resume` pass on to the trials and the final.

    Attributes:
        console: Where progress and warnings are shown.
        verbosity: 0 is quiet; see `experiments.running.runner.run_sweep`.
        retry_errored: Whether trials that failed go on from their latest checkpoint.
    """

    console: Console
    verbosity: int = 0
    retry_errored: bool = False


def fit(
    sweep: Sweep,
    prepared: PreparedSweep,
    options: RunOptions,
    hold_final: Callable[[Sweep, Outcome, str | None, RunOptions], Final],
) -> Outcome:
    """Run the trials of a sweep, and its final, and write what came out.

    Args:
        sweep: The sweep.
        prepared: Its Tuner.
        options: How it is run and shown.
        hold_final: Runs the best configurations on held-out seeds, if the spec has a `final`. Takes
            the sweep, its outcome so far, the id of its run in MLflow, and the options.

    Raises:
        MachineFailed: Ray, a node or the disk was lost; what was saved is there.
        SweepStopped: Something else ended it.
        KeyboardInterrupt: Ctrl-C or a signal ended it while results were written.
    """
    import ray

    from experiments.internals.tune import own_working_folder, uncounted_callbacks

    status, folder, mlflow = "KILLED", sweep.folder, prepared.mlflow

    def close() -> None:
        if prepared.study is not None:
            prepared.study.close()
        if mlflow is not None:
            mlflow.close(status)

    note_environment(folder, ray.cluster_resources())
    stop = Interruption(folder, options.console, unless=lost_ray)
    with closed_without_ray(folder, close), stop.writing():
        try:
            doing("starting trials")
            with own_working_folder(), uncounted_callbacks():
                results, interrupted = _interruptible(prepared.tuner.fit, stop)
            if interrupted and lost_ray():
                raise KeyboardInterrupt
            if interrupted and not received():
                stop.say(f"The trials have ended. Writing {RESULTS} …")
            outcome = outcome_of(results, folder, interrupted)
            if sweep.spec.final is not None and not (interrupted or outcome.all_failed):
                linked_to = mlflow.parent_run_id if mlflow is not None else None
                outcome.final = hold_final(sweep, outcome, linked_to, options)
                outcome.interrupted = outcome.final.interrupted
            if outcome.interrupted and received():
                return outcome  # who ends the process counts the seconds: pictures can wait
            doing("writing what came out")
            write_results(sweep, outcome, mlflow)
            status = outcome.status
            stop.unsaved = TRACKED
            if mlflow is not None:
                doing("finishing the MLflow run")
                mlflow.log_results(outcome.records)
                mlflow.close(status)  # waits until all is written, the model too
                outcome.model = mlflow.model_uri
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


def _interruptible(fit: Callable[[], ResultGrid], stop: Interruption) -> tuple[ResultGrid, bool]:
    """Call `fit`; tell whether Ctrl-C ended it.

    Tune puts its own handler in place of the one it finds, and puts that back when it is used. It
    does not when it is not used, and would swallow every later Ctrl-C.
    """
    with stop.spoken():
        results = fit()
        return results, stop.pressed


def _first_cause(error: BaseException) -> str:
    """One line on what went wrong first: Tune's own cleaning up may have failed after it."""
    error = _first(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _first(error: BaseException) -> BaseException:
    while error.__context__ is not None:
        error = error.__context__
    return error
