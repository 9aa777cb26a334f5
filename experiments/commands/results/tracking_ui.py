"""The MLflow UI over the store that a sweep wrote to."""

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
from experiments.commands.results.tracking_page import page_line
from experiments.errors import ExperimentError
from experiments.running.matrix_state import is_matrix, load_matrix
from experiments.spec.paths import SPEC_FILE, default_tracking_uri, tracking_uri
from experiments.sweep.folder import load_sweep_spec

if TYPE_CHECKING:
    from rich.console import Console

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
        console.print(f"This sweep is tracked at {scrubbed(uri)}", highlight=False)
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
    console.print(f"MLflow UI: http://{HOST}:{port} (Ctrl-C stops it)", highlight=False)
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
        console.print(line, highlight=False, soft_wrap=True, markup=False)


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
