"""Where MLflow's UI shows the sweep of a folder, or the latest of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.home import expanded
from analysis.results.load import is_sweep_folder
from analysis.results.mlflow_tags import OBJECTIVE_TAG
from analysis.results.rows import ResultsError
from experiments.errors import ExperimentError
from experiments.spec.paths import SPEC_FILE
from experiments.sweep.folder import load_sweep_spec
from experiments.tracking.view import view_path

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

    from analysis import Sweep


def page_line(folder: Path, uri: str, address: str) -> str:
    """Return a line with the page to look at, as the UI's front page is that of language models.

    Args:
        folder: A sweep's folder, which has a page of its own, or one that holds sweeps.
        uri: The store's tracking URI.
        address: Of the UI, without a slash at the end.

    Returns:
        What the page is, and its address; "" if the store does not answer or has no experiment:
        the UI says what is wrong.
    """
    from mlflow.exceptions import MlflowException

    from experiments.tracking.store import connect

    folder = expanded(folder).absolute()
    try:
        client = connect(uri)
        path = _sweep_path(client, folder)
        if path:
            return f"The sweep {folder.name}: {address}/{path}"
        path = _latest_path(client)
    except (ExperimentError, MlflowException, OSError):
        return ""
    return f"Runs of the latest sweeps: {address}/{path}" if path else ""


def _sweep_path(client: MlflowClient, folder: Path) -> str:
    """The page of a sweep's trials; "" if the folder is no sweep's, or MLflow has no run of it."""
    from analysis.results.load import load_sweep
    from experiments.tracking.artifacts import share_view_of

    if not is_sweep_folder(folder):
        return ""
    metric, mode, name = "episode_return_mean", "max", None
    if (folder / SPEC_FILE).is_file():
        spec = load_sweep_spec(folder)
        metric, mode = spec.objective.metric, spec.objective.mode
        name = spec.mlflow.experiment_name
    try:
        sweep = load_sweep(folder)
    except ResultsError:  # no trial began
        return ""
    run = _run_of(client, sweep, name)
    if run is None:
        return ""
    if name is None:  # of a plain Tuner: its callback has noted the objective
        said = run.data.tags.get(OBJECTIVE_TAG, f"{mode} {metric}")
        mode, _, metric = said.partition(" ")
    key = share_view_of(client, run, sweep, metric, mode)
    if key:
        return view_path(run.info.experiment_id, key)
    return f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def _run_of(client: MlflowClient, sweep: Sweep, experiment_name: str | None) -> Run | None:
    """Return the sweep's run, in the experiment of that name or in any."""
    from experiments.commands.results.sweep_artifacts import parent_of

    experiments = client.search_experiments()
    for experiment in experiments:
        if experiment_name in (None, experiment.name):
            run_id = parent_of(client, experiment.experiment_id, sweep)
            if run_id is not None:
                return client.get_run(run_id)
    return None


def _latest_path(client: MlflowClient) -> str:
    """Return the runs of the experiment that was written to last."""
    found = client.search_experiments(order_by=["last_update_time DESC"], max_results=1)
    if not found:
        return ""
    return f"#/experiments/{found[0].experiment_id}/runs?workflowType=machine_learning"
