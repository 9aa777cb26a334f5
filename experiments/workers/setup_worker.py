"""What a raylet runs to start a worker: asks the server of workers for a fork, or starts it itself.

A program of its own, on the standard library alone: it is to take milliseconds. It stands for both
of Ray's own programs, `default_worker.py`, which is a worker, and `setup_worker.py`, which sets a
worker's environment first and which a raylet leaves out, by that name, where there is nothing to
set. Without a server, or where more is to be set than variables, Ray's own programs run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOCKET = "TUNESCAPE_WORKER_SOCKET"  # the variable that holds the path of the server's socket
_CONTEXT = "--serialized-runtime-env-context="
_LANGUAGE = "--language="


def main() -> None:
    """Start the worker that this process was started for."""
    arguments = sys.argv[1:]
    with_setup = arguments[:1] == sys.argv[:1]  # this program, to be followed by itself
    if with_setup:
        arguments = arguments[1:]
    variables = _variables(arguments)
    if variables is not None and _forked(_plain(arguments), variables):
        return
    workers = rays_workers()
    programs = ["setup_worker.py", "default_worker.py"] if with_setup else ["default_worker.py"]
    own = [str(workers / name) for name in programs]
    os.execv(sys.executable, [sys.executable, *own, *arguments])


def send(to: socket.socket, message: Mapping[str, Any], descriptors: list[int]) -> None:
    """Send a message in JSON, as one packet, with open files.

    Raises:
        OSError: Nobody is there, or the message has more than some 200 kB.
    """
    socket.send_fds(to, [json.dumps(message).encode()], descriptors)


def _variables(arguments: list[str]) -> dict[str, str] | None:
    """Return the worker's environment; None if it needs more than variables to be set."""
    variables = dict(os.environ)
    context = next((a for a in arguments if a.startswith(_CONTEXT)), None)
    if context is None:
        return variables
    asked = json.loads(context.removeprefix(_CONTEXT))
    if asked.get("py_executable") not in (None, sys.executable):
        return None
    if asked.get("command_prefix") or asked.get("override_worker_entrypoint"):
        return None
    for name, value in asked.get("env_vars", {}).items():
        variables[name] = os.path.expandvars(value)  # as Ray does
    return variables


def _plain(arguments: list[str]) -> list[str]:
    """Return what is left of a worker's arguments once its environment is set."""
    return [a for a in arguments if not a.startswith((_CONTEXT, _LANGUAGE))]


def _forked(arguments: list[str], variables: dict[str, str]) -> bool:
    """Have the worker forked; tell whether that was done."""
    path = os.environ.get(SOCKET)
    if not path:
        return False
    message = {
        "arguments": arguments,
        "variables": variables,
        "folder": os.getcwd(),
        "blocked_signals": [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        try:
            server.connect(path)
            send(server, message, [0, 1, 2])
            return server.recv(1) == b"1"  # waits until the server has imported everything
        except OSError:
            return False


def rays_workers() -> Path:
    """Return the folder of Ray's own programs; Ray itself is not imported."""
    found = importlib.util.find_spec("ray")
    if found is None or found.origin is None:
        raise SystemExit("this Python has no ray")
    return Path(found.origin).parent / "_private" / "workers"


if __name__ == "__main__":
    main()
