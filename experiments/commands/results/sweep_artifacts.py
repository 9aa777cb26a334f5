"""A sweep's results, logged to its run in MLflow at any time after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.credentials import scrubbed
from analysis.home import expanded
from analysis.reachable import check_tracking
from analysis.results.load import is_mlflow, load_sweep
from analysis.results.mlflow_tags import PARENT_TAG, TRIAL_TAG
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from experiments.errors import ExperimentError
from experiments.spec.paths import BEST_FOLDER, SPEC_FILE, tracking_uri
from experiments.sweep.folder import load_sweep_spec
from experiments.tracking.artifacts import log_results
from experiments.tracking.names import BEST_ARTIFACT
from experiments.tracking.store import connect, find_runs, first_line

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from experiments.spec.schema import SweepSpec


def check_log_of_sweep(folder: Path) -> SweepSpec:
    """See, before anything is written, that a sweep's results can be logged.

    Args:
        folder: The sweep's folder.

    Returns:
        Its spec.

    Raises:
        ExperimentError: It is no sweep's folder, MLflow was off, or does not answer.
    """
    if is_mlflow(folder):
        raise ExperimentError(f"{folder} is in MLflow: give the sweep's folder, e.g. runs/<name>")
    spec = load_sweep_spec(folder)
    if not spec.mlflow.enabled:
        folder = expanded(folder).absolute()
        raise ExperimentError(f"{folder}: mlflow.enabled is false in its {SPEC_FILE}")
    if problem := check_tracking(tracking_uri(spec)):
        raise ExperimentError(problem)
    return spec


def log_artifacts_of_sweep(folder: Path) -> str:
    """Log a sweep's report, pictures, tables and best policy to its run, at any time after it.

    Args:
        folder: The sweep's folder; the run is found by its trials.

    Returns:
        What was logged where, in a line.

    Raises:
        ExperimentError: It is no sweep's folder, MLflow was off, does not answer, or has no run of
            this sweep.
    """
    spec = check_log_of_sweep(folder)
    folder = expanded(folder).absolute()
    uri = tracking_uri(spec)
    client = connect(uri)
    shown = f"MLflow experiment {spec.mlflow.experiment_name!r} at {scrubbed(uri)}"
    try:
        experiment = client.get_experiment_by_name(spec.mlflow.experiment_name)
        if experiment is None:
            raise ExperimentError(f"there is no {shown}")
        sweep = load_sweep(folder)
        run_id = parent_of(client, experiment.experiment_id, sweep)
        if run_id is None:
            raise ExperimentError(f"{shown} has no run of the sweep {folder}")
        paths = log_results(
            client,
            experiment.experiment_id,
            run_id,
            sweep,
            spec.objective.metric,
            spec.objective.mode,
        )
        if (folder / BEST_FOLDER).is_dir():
            client.log_artifacts(run_id, str(folder / BEST_FOLDER), artifact_path=BEST_ARTIFACT)
            paths.append(BEST_ARTIFACT)
    except ResultsError as error:
        raise ExperimentError(str(error)) from None
    except ExperimentError:
        raise
    except Exception as error:  # whatever a store raises
        raise ExperimentError(f"{shown} refused the artifacts: {first_line(error)}") from error
    return f"Logged to {shown}, run {run_id}: {', '.join(paths)}"


def parent_of(client: MlflowClient, experiment_id: str, sweep: Sweep) -> str | None:
    """Return the id of the run whose children are a sweep's trials; None if there is none."""
    for trial in sweep.trials:
        for run in find_runs(client, experiment_id, TRIAL_TAG, trial.trial_id):
            if PARENT_TAG in run.data.tags:
                return str(run.data.tags[PARENT_TAG])
    return None
