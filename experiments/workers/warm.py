"""Starts the server that workers are forked from, and tells it of each raylet.

A trial's process imports PyTorch, Ray Tune and the algorithms: four seconds of a processor, and
more than a short trial trains for. Forked from a process that has imported them, it starts in some
tenths of a second. Only on Linux, and only where a sweep starts Ray itself; elsewhere, and where
anything about it fails, Ray starts its workers as it does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from experiments.internals.ray import worker_program, worker_variables
from experiments.workers import server, setup_worker

SWITCH = "TUNESCAPE_WARM_WORKERS"  # "0" turns it off
AT_START = {
    # A host has a thread for each call, and glibc would spread what trials leave over many heaps,
    # none of which shrinks: a host of 40 threads grew by 65 kB with each trial, with one by 4 kB.
    "MALLOC_ARENA_MAX": "1",
}
_BACKLOG = 128
_LONGEST = 107  # bytes of a socket's path

_server: WorkerServer | None = None
_is_used = False


class WorkerServer:
    """The process that forks, as those know it that start raylets.

    Attributes:
        control: Where it is told of raylets; it ends when every process has closed this.
        folder: The folder of its sockets.
    """

    def __init__(self, control: socket.socket, folder: Path) -> None:
        """Of a process that has been started: see `start`."""
        self.control = control
        self.folder = folder
        self._num_sockets = 0

    @classmethod
    def start(cls) -> WorkerServer:
        """Start the process; it needs some seconds until it forks, and ends with this one."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = Path(tempfile.mkdtemp(prefix="tunescape-"))
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", server.__file__, str(theirs.fileno()), str(folder)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Libraries may start threads while they are imported; a trial sets its own number.
                env={"OMP_NUM_THREADS": "1", **AT_START, **os.environ},
                start_new_session=True,  # Ctrl-C is not for it
            )

        def end() -> None:
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)

        atexit.register(end)
        return cls(control, folder)

    def new_path(self) -> str | None:
        """Return where the workers of the next raylet are to be asked for; None if nowhere."""
        self._num_sockets += 1
        path = str(self.folder / f"{os.getpid()}-{self._num_sockets}")
        return path if len(path.encode()) <= _LONGEST and self.folder.is_dir() else None

    def announce(self, path: str, raylet: int) -> None:
        """Tell the process of a raylet.

        Args:
            path: Of the socket that the process is to listen to.
            raylet: The raylet's process id.
        """
        modules = [name for name in sorted(sys.modules) if name.partition(".")[0] == "trainables"]
        message = {
            "raylet": raylet,
            "worker": str(setup_worker.rays_workers() / "default_worker.py"),
            "modules": ["ray.tune", "trainables.runtime.members.host", *modules],
            "variables": {**os.environ, **worker_variables(raylet)},
        }
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, suppress(OSError):
            listener.bind(path)
            listener.listen(_BACKLOG)  # from now on workers wait until the process is ready
            setup_worker.send(self.control, message, [listener.fileno()])


def start_server() -> None:
    """Start the server, if there is to be one and it does not run yet."""
    global _server
    if _server is None and _is_wanted():
        _server = WorkerServer.start()


@contextmanager
def warm_workers() -> Iterator[None]:
    """Let the workers of Rays that `ray.init` starts within be forks of the server."""
    global _is_used
    start_server()
    if _server is None or _is_used or not _is_wanted():
        yield
        return
    _is_used = True
    try:
        with worker_program(Path(setup_worker.__file__), _told_of_raylet):
            yield
    finally:
        _is_used = False


@contextmanager
def _told_of_raylet() -> Iterator[list[int]]:
    """Tell the server of the raylet that is started within; its id is put into the list."""
    started: list[int] = []
    path = _server.new_path() if _server is not None else None
    if _server is None or path is None:
        yield started
        return
    os.environ[setup_worker.SOCKET] = path
    try:
        yield started
        _server.announce(path, *started)
    finally:
        del os.environ[setup_worker.SOCKET]  # the raylet has it


def _is_wanted() -> bool:
    return (
        sys.platform == "linux"
        and os.environ.get(SWITCH) != "0"
        and not (sys.flags.no_site or sys.flags.no_user_site)  # Ray's workers would have them, too
    )
