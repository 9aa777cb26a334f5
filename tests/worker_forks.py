"""A process that has imported what Ray's workers need from others, and forks them.

It does not import Ray itself, which reads its variables as it is imported.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import random
import resource
import runpy
import signal
import socket
import sys
import threading
from typing import Any

import fsspec  # noqa: F401 - this and what follows are for the workers
import gymnasium  # noqa: F401
import jsonschema  # noqa: F401
import numpy as np
import pandas  # noqa: F401
import pyarrow.fs  # noqa: F401
import pydantic.types  # noqa: F401
import requests  # noqa: F401
import rich.progress  # noqa: F401
import tensorboardX  # noqa: F401
import torch
import torch.distributed
import yaml  # noqa: F401

_PR_SET_PDEATHSIG = 1


def serve(listener: socket.socket) -> None:
    """Fork workers until the process ends that has started this one."""
    while True:
        connection, _ = listener.accept()
        with connection:
            asked, files = _asked(connection)
            if os.fork() == 0:
                listener.close()
                connection.close()
                _become(files=files, **asked)
            for file in files:
                os.close(file)
            connection.sendall(b"1")


def _asked(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What a node's program has sent: all of the process that it is to be, and its files."""
    asked, files, _, _ = socket.recv_fds(connection, 65536, 3)
    while not asked.endswith(b"\n"):
        asked += connection.recv(65536)
    return json.loads(asked), files


def _become(
    command: list[str],
    cwd: str,
    environment: dict[str, str],
    group: int,
    niceness: int,
    open_files: tuple[int, int],
    blocked: list[int],
    ignored: bool,
    files: list[int],
) -> None:
    """In the fork: be the worker, and end."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            os.setpgid(0, group)
        except PermissionError:  # of another session
            os.setsid()
        os.nice(max(0, niceness - os.nice(0)))
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        for seed in (random.seed, np.random.seed, torch.seed):  # else all have the same numbers
            seed()
        paths = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
        sys.path[:1] = [os.path.dirname(command[0]), *paths]
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:  # what forks leave out
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # else those that end remain as zombies
    serve(socket.socket(fileno=int(sys.argv[1])))
