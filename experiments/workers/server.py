"""The process that workers are forked from: it imports once what each of them would import.

A program of its own; `warm.py` starts it, beside its own imports. It imports first what knows
nothing of Ray. When a raylet has been started it forks, and the fork imports Ray, under that
raylet's environment (Ray reads it once, while it is imported), and then forks a worker for each
that the raylet asks for. No thread of Python's runs and no Ray is connected where it forks.

Both processes end with the process that started them, a raylet's with the raylet, too.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Any

# What trials import and what does not import Ray.
_WITHOUT_RAY = (
    *("numpy", "pandas", "pyarrow", "torch", "gymnasium.vector", "safetensors.torch"),
    *("pydantic", "yaml", "rich", "fsspec", "requests", "jsonschema", "google.protobuf"),
)
# Read when a process starts or a library is imported: a worker for which they differ is not forked.
_READ_AT_START = ("RAY_", "PYTHON", "LD_", "OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "TORCH_")
_LARGEST_PACKET = 2**20  # bytes
_IDS = 1_000  # random ones, more than a worker takes of Ray's generator
_Message = dict[str, Any]


def main() -> None:
    """Serve until the process at the other end of the control socket ends; also be a worker."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that end
    gc.disable()  # what is imported stays; workers collect
    _import_all(_WITHOUT_RAY)
    if (raylet := _next_raylet(control)) is None:
        shutil.rmtree(sys.argv[2], ignore_errors=True)  # it has died, or would
        return
    message, listener = raylet
    if (worker := _next_worker(message, listener, control)) is None:
        return
    _become(*worker, message["worker"])


def _next_raylet(control: socket.socket) -> tuple[_Message, socket.socket] | None:
    """Fork a process for each raylet that is announced.

    Returns:
        In the fork, what was announced and the socket to listen to. In this process None, at the
        end.
    """
    while (received := _receive(control, 1)) is not None:
        message, [listener] = received
        if os.fork() == 0:
            return message, socket.socket(fileno=listener)
        os.close(listener)
    return None


def _next_worker(
    message: _Message, listener: socket.socket, control: socket.socket
) -> tuple[_Message, list[int]] | None:
    """Import the rest, and fork a worker for each that is asked for.

    Returns:
        In a worker what was asked for, and its standard files. In this process None, at the end.
    """
    variables = message["variables"]
    os.environ.clear()
    os.environ.update(variables)
    added = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [path for path in added if path not in sys.path]
    try:
        raylet = os.pidfd_open(message["raylet"])
    except OSError:
        return None  # has ended already
    _import_all(message["modules"])
    gc.collect()
    gc.freeze()  # or the first collection of each worker would copy every page
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(raylet, select.POLLIN)
    poll.register(control, 0)  # hanging up is told in any case; messages are not for this process
    while {fd for fd, _ in poll.poll()} == {listener.fileno()}:
        connection, _ = listener.accept()
        with connection:
            asked = None
            with contextlib.suppress(OSError):
                asked = _receive(connection, 3)
            if asked is None:
                continue
            worker, files = asked
            is_alike = _read_at_start(worker["variables"]) == _read_at_start(variables)
            _skip_ids()
            if is_alike and os.fork() == 0:
                listener.close()
                control.close()
                os.close(raylet)
                return worker, files
            for file in files:
                os.close(file)
            with contextlib.suppress(OSError):
                connection.sendall(b"1" if is_alike else b"0")
    return None


def _skip_ids() -> None:
    """Have the next fork draw other random ids than those before.

    Ray's generator is seeded once, by the first import that takes an id. Two workers of one id for
    what each stores first ended one of them, and its raylet waited a minute for it.
    """
    if (ray := sys.modules.get("ray")) is not None:
        for _ in range(_IDS):
            ray.ObjectRef.from_random()


def _become(worker: _Message, files: list[int], program: str) -> None:
    """Be a worker, as if this process had been started for that."""
    os.setpgid(0, 0)  # a raylet ends the whole group of a worker that has ended
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, worker["blocked_signals"])
    resource.setrlimit(resource.RLIMIT_NOFILE, worker["open_files"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(worker["variables"])
    os.chdir(worker["folder"])
    _seed_anew()
    gc.enable()
    sys.path.insert(0, os.path.dirname(program))
    sys.argv = [program, *worker["arguments"]]
    runpy.run_path(program, run_name="__main__")


def _seed_anew() -> None:
    """Give this fork random numbers of its own, which its siblings do not draw, too.

    | Generator | In a fork |
    |---|---|
    | NumPy's default one, which SciPy and scikit-learn use | seeded here |
    | PyTorch's default ones, of the CPU and of each device | seeded here |
    | Ray's, of ids | see `_skip_ids` |
    | Python's, also of names of temporary files | seeded by Python in each fork |
    | `uuid.uuid4`, `secrets`, OpenSSL | the system's, never inherited |
    | the seed of `hash` | one for all forks: it orders sets of texts, and draws nothing |
    """
    for library in ("numpy.random", "torch.random"):
        if (module := sys.modules.get(library)) is not None:
            module.seed()


def _receive(from_: socket.socket, num_files: int) -> tuple[_Message, list[int]] | None:
    """Receive what `setup_worker.send` sends; None if nobody is there any more."""
    packet, files, _, _ = socket.recv_fds(from_, _LARGEST_PACKET, num_files)
    return (json.loads(packet), files) if packet else None


def _read_at_start(variables: dict[str, str]) -> dict[str, str]:
    """Return those of a process's variables that count while it starts."""
    return {k: v for k, v in variables.items() if k.startswith(_READ_AT_START)}


def _import_all(modules: Iterable[str]) -> None:
    """Import what is there: what is not, a worker imports itself, and tells why it cannot."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    main()
