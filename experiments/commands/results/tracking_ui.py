"""The MLflow UI over the store that a sweep wrote to, and which of its pages shows the sweep."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.credentials import scrubbed, without_credentials
from analysis.home import expanded
from analysis.results.load import is_sweep_folder
from analysis.results.mlflow_tags import OBJECTIVE_TAG
from analysis.results.rows import ResultsError
from experiments.errors import ExperimentError
from experiments.running.matrix_state import is_matrix, load_matrix
from experiments.spec.paths import SPEC_FILE, default_tracking_uri, tracking_uri
from experiments.sweep.folder import load_sweep_spec
from experiments.terminal import say
from experiments.tracking.view import view_path

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient
    from rich.console import Console

    from analysis import Sweep

HOST = "127.0.0.1"
_GRACE_S = 5.0


def serve(folder: Path, port: int, console: Console) -> int:
    """Run the UI until it is interrupted.

    Args:
        folder: A sweep's folder, or the folder that holds sweeps.
        port: Port on the loopback interface.
        console: Where the address is shown.

    Returns:
        The server's exit status.

    Raises:
        ExperimentError: There is no store, or the port is taken.
    """
    uri = store_of(folder)
    if uri.startswith(("http://", "https://")):
        say(console, f"This sweep is tracked at {scrubbed(uri)}")
        _show(page_line(folder, uri, without_credentials(uri).rstrip("/")), console)
        return 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ExperimentError(
                f"port {port} on {HOST} cannot be used: {error.strerror}; choose one with --port"
            ) from None
    say(console, f"MLflow UI: http://{HOST}:{port} (Ctrl-C stops it)")
    # The server has worker processes: all of them are in a group of their own, and end with us.
    server = subprocess.Popen(ui_command(port), start_new_session=True, env=_environment(uri))
    try:
        _show(page_line(folder, uri, f"http://{HOST}:{port}"), console)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(server)


def _show(line: str, console: Console) -> None:
    if line:
        say(console, line)


def _environment(uri: str) -> dict[str, str]:
    """Return the store, as a command line would show its password, and no job runners.

    Those are half a dozen processes that only language models need.
    """
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(_GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def store_of(folder: Path) -> str:
    """Return the tracking URI of a sweep's folder, or of a folder that holds sweeps."""
    folder = expanded(folder).absolute()
    if (folder / SPEC_FILE).is_file():
        uri = tracking_uri(load_sweep_spec(folder))
    elif is_matrix(folder):
        uri = tracking_uri(next(iter(load_matrix(folder).specs.values())))
    elif is_sweep_folder(folder):  # of a plain Tuner: its callback's default
        uri = default_tracking_uri(folder.parent)
    else:
        uri = default_tracking_uri(folder)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ExperimentError(
            f"{folder}: no MLflow database here ({uri.removeprefix('sqlite:///')}); "
            "give the folder of a sweep or the one that holds sweeps"
        )
    return uri


def ui_command(port: int) -> list[str]:
    """Return the command line of the server; `_environment` names the store."""
    return [
        *(sys.executable, "-m", "mlflow", "ui"),
        *("--host", HOST, "--port", str(port), "--workers", "1"),
    ]


def page_line(folder: Path, uri: str, address: str) -> str:
    """Return a line with the page to look at, as the UI's front page is that of language models.

    Args:
        folder: A sweep's folder, which has a page of its own, or one that holds sweeps.
        uri: The store's tracking URI.
        address: The address of the UI, without a slash at the end.

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
