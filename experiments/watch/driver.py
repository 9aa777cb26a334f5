"""Whether a sweep's driver is alive, without touching the lock that it holds."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from experiments.spec.paths import LOCK_FILE

_LOCKS = Path("/proc/locks")  # Linux: every lock, with its process and its file's inode


def driver_is_alive(folder: Path) -> bool | None:
    """Tell whether a process runs the sweep of a folder.

    Taking the lock to see would refuse a driver that begins at that moment.

    Returns:
        None where it cannot be known: the driver is on another machine, or there is no lock.
    """
    path = folder / LOCK_FILE
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        process, host, inode = int(holder["pid"]), holder["host"], path.stat().st_ino
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if host != socket.gethostname():
        return None
    return _is_running(process) and _holds(process, inode)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _holds(process: int, inode: int) -> bool:
    """Tell whether a running process has the lock: a notebook lives on after its sweep."""
    try:
        lines = _LOCKS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return True
    # `7: FLOCK  ADVISORY  WRITE 4131 00:3c:1054 0 EOF`
    held = (line.split() for line in lines)
    return any(
        len(words) > 5 and words[4] == str(process) and words[5].endswith(f":{inode}")
        for words in held
    )
