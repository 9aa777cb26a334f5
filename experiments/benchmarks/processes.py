"""The processes below this one, and the memory and CPU of each, as Linux tells."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
ENV_RUNNER = "ray::EnvRunnerActor"
"""What the names of env runners begin with."""
MAKING = (".__init__", ".build")
"""What they end with while they are made."""
MB = 1e6


def descendants() -> dict[int, str]:
    """Process ids of all living children of this process and theirs, each with its name.

    The name is the first word of the command line, which Ray sets to what an actor does:
    `ray::EnvRunnerActor.sample`. Processes that have ended and wait for their parent are none.
    """
    children, found, waiting = _children(), {}, [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            waiting.append(pid)
            if name := name_of(pid):
                found[pid] = name
    return found


def children_of(pid: int) -> list[int]:
    """Process ids of the living children of a process."""
    return _children().get(pid, [])


def env_runners(*, built: bool = False) -> list[int]:
    """Process ids of the env runners below this process.

    Args:
        built: Without those that are just being made.
    """
    return sorted(
        pid
        for pid, name in descendants().items()
        if name.startswith(ENV_RUNNER) and not (built and name.endswith(MAKING))
    )


def name_of(pid: int) -> str:
    """The first word of a process's command line; empty if it has ended."""
    try:
        line = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return line.partition(b"\0")[0].decode(errors="replace").strip()


def memory(pid: int) -> dict[str, float]:
    """Megabytes that a process holds in RAM; empty if it has ended.

    `resident` counts everything; `own` is what the process has allocated: without libraries, whose
    pages other processes may share or not, and without the object store's.
    """
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return {}
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 / MB for line in lines}
    return {
        "resident": sizes["Rss"],
        "proportional": sizes["Pss"],
        "own": sizes["Anonymous"],
    }


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU that a process has used; 0 if it has ended."""
    try:
        numbers = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (parent := _parent(folder)) is not None:
            children.setdefault(parent, []).append(int(folder.name))
    return children


def _parent(folder: Path) -> int | None:
    try:
        # After the name, which is in brackets and may hold anything: state and parent.
        state, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else int(parent)
