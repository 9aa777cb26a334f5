"""The commands of a page, as its reader would type them one after another."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forked_drivers import completed

ROOT = Path(__file__).parents[1]
_COMMANDS = re.compile(r"^[^\n]*<<'EOF'\n.*?^EOF$|^[^\n]+$", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"(?:--port|http\.server) (\d+)")
_MLFLOWS_PORT = 5000
_START_S = 120
_OF_THE_SHELL = set("|<>&;$`*\\")


def run_commands(text: str, folder: Path) -> str:
    """Run a block of bash in a folder, and return what it wrote to stdout.

    A command that is tunescape's alone is a fork of a process that has imported everything.
    """
    output = ""
    for command in _COMMANDS.findall(text):
        words = shlex.split(command, comments=True)
        if words[:1] == ["tunescape"] and not _OF_THE_SHELL & set("".join(words)):
            own = {"PYTHONPATH": str(ROOT)}
            done = completed(*words[1:], cwd=folder, variables=own, timeout=600)
        else:
            done = run(["bash", "-euo", "pipefail", "-c", command], folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        output += done.stdout
    return output


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program that has run to its end."""
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )


def environment() -> dict[str, str]:
    """This interpreter's commands first; nothing of the test's own Python path."""
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "RAY_AUTH_MODE")}
    path = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", "")])
    return own | {"PATH": path, "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}


@contextmanager
def servers(folder: Path) -> Iterator[Callable[[str], str]]:
    """Start commands that serve on a port, and end them with all that they have started."""
    running: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> str:
        given = _PORT.search(code)
        running.append(
            subprocess.Popen(
                # exec: the process that is ended is the server, not the shell around it.
                ["bash", "-c", f"exec {code}"],
                cwd=folder,
                env=environment(),
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        _wait_for(int(given[1]) if given else _MLFLOWS_PORT, running[-1])
        return ""

    try:
        yield start
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        assert process.poll() is None, f"the server on port {port} ended by itself"
        with socket.socket() as connection:
            connection.settimeout(1)
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError(f"no server on port {port} after {_START_S} s")
