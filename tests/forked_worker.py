"""What Ray's node runs for a worker in tests: it asks `worker_forks` for one.

The node learns from the worker itself which process it is, so this one ends at once.
"""

import importlib.util
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path


def main(server: str) -> None:
    """Pass on all that a process inherits, or become the worker where nobody listens."""
    ray = importlib.util.find_spec("ray")
    assert ray is not None and ray.origin is not None
    program = str(Path(ray.origin).parent / "_private" / "workers" / "default_worker.py")
    told = {
        "command": [program, *sys.argv[1:]],
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "group": os.getpgrp(),
        "niceness": os.nice(0),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("\0" + server)
            socket.send_fds(connection, [json.dumps(told).encode() + b"\n"], [0, 1, 2])
            if connection.recv(1):
                return
    except OSError:
        pass
    os.execv(sys.executable, [sys.executable, program, *sys.argv[1:]])


if __name__ == "__main__":
    main(os.environ.pop("TESTS_FORKED_WORKERS"))
