"""One driver at a time: two that write the same sweep's folder would ruin it.

The lock belongs to the process, not to the file: the system takes it back when the process ends,
however it ends. So a sweep whose driver was killed can be resumed at once, even if another process
has been given its number since.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from experiments.errors import SweepError
from experiments.spec.paths import LOCK_FILE


@contextmanager
def sweep_lock(folder: Path) -> Iterator[None]:
    """Hold the sweep's folder, which is made if need be, for this process.

    A file system without locks (some network ones) is used without.

    Raises:
        SweepError: Another process runs the sweep; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a+", encoding="utf-8") as stream:
        if not _take(stream):
            raise SweepError(
                f"{folder}: the sweep is running in {_holder(stream)}; "
                "wait for it, or stop it with Ctrl-C first"
            )
        stream.truncate(0)
        json.dump({"pid": os.getpid(), "host": socket.gethostname()}, stream)
        stream.flush()
        yield


def _take(stream: IO[str]) -> bool:
    """Lock the file until it is closed; False if another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _holder(stream: IO[str]) -> str:
    try:
        stream.seek(0)
        holder = json.load(stream)
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
