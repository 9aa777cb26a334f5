"""Ray workers that import little.

Most of what an actor of a short trial costs are the imports of its process. So workers of a test's
Ray are forks of a process that has made most of them, as `forked_drivers` does it for commands. A
fork has the arguments, environment, folder, signals and limits that the node gives a worker.
"""

from __future__ import annotations

import atexit
import functools
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STUB = Path(__file__).with_name("forked_worker.py")
VARIABLE = "TESTS_FORKED_WORKERS"


@contextmanager
def forked_workers(server: Callable[[], str | None]) -> Iterator[None]:
    """Let nodes that are started within have forks as workers.

    Args:
        server: Tells the name of the socket of the process that forks them, or None for real ones.
    """
    from ray._private import services

    start = services.start_raylet

    def start_raylet(*arguments: Any, **options: Any) -> Any:
        name = server()
        if name is None:
            return start(*arguments, **options)
        changed = [
            str(STUB) if str(argument).endswith("default_worker.py") else argument
            for argument in arguments
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, name)
            return start(*changed, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "start_raylet", start_raylet)
        yield


@functools.cache
def fork_server() -> str | None:
    """Start the process that forks, once; it ends with this one.

    Returns:
        The name of its socket; None where the system has no such names.
    """
    if sys.platform != "linux":
        return None
    name = f"tunescape-tests-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(64)
        number = listener.fileno()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        program = str(Path(__file__).with_name("worker_forks.py"))
        process = subprocess.Popen(
            [sys.executable, program, str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[number],
            env=environment,
        )
    atexit.register(process.kill)
    return name
