"""An MLflow server on loopback that can be killed and started again at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from experiments.tracking.store import connect


class MLflowServer:
    """`mlflow server` in a process group of its own.

    Args:
        folder: Where its database `mlflow.db` and its artifacts lie.

    Attributes:
        uri: Its address.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self._port}"
        # With its tables made; the server would make them slower.
        connect(f"sqlite:///{folder}/mlflow.db").search_experiments()

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            RuntimeError: It has ended instead.
        """
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{self._folder}/mlflow.db"),
                *("--artifacts-destination", str(self._folder / "artifacts")),
                *("--host", "127.0.0.1", "--port", str(self._port)),
            ],
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"the MLflow server at {self.uri} has ended")

    def kill(self) -> None:
        """Kill it with its workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
