"""The commands of a page, as its reader would type them one after another."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from forked_drivers import completed
from page_blocks import ROOT, code_in, smaller_text, write_files

ByHand = Mapping[str, Callable[[str], str]]
_COMMANDS = re.compile(r"^[^\n]*<<'EOF'\n.*?^EOF$|^[^\n]+$", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"(?:--port|http\.server) (\d+)")
_MLFLOWS_PORT = 5000
_START_S = 120
_OF_THE_SHELL = set("|<>&;$`*\\")


def follow(
    page: str,
    folder: Path,
    smaller: Mapping[str, str] | None = None,
    by_hand: ByHand | None = None,
    start: str = "",
    end: str = "",
) -> dict[str, str]:
    """Do what a page says: save its files, then run the other blocks one after another.

    Args:
        page: Its path below the root.
        folder: Where a reader would be.
        smaller: Words that the page must have, and what stands in their place.
        by_hand: Words of commands, and of blocks of other languages, that are done otherwise.
        start: Words with which the part begins whose blocks are run.
        end: Words with which it ends.

    Returns:
        What each block that was run wrote to stdout, by its code.
    """
    write_files(page, folder, smaller)
    printed: dict[str, str] = {}
    for block in code_in(page, start, end, smaller_text(page, smaller)):
        if block.file:
            continue
        if block.language == "bash":
            printed[block.code] = run_commands(block.code, folder, by_hand)
        elif do := _done_by_hand(block.code, by_hand):
            printed[block.code] = do(block.code)
        else:
            assert block.language == "python", f"{page}:{block.line}: {block.language}"
            printed[block.code] = run_python(["-c", block.code], folder)
    return printed


def output_of(printed: Mapping[str, str], words: str) -> str:
    """What the page's one block with these words wrote."""
    [found] = [output for code, output in printed.items() if words in code]
    return found


def run_commands(text: str, folder: Path, by_hand: ByHand | None = None) -> str:
    """Run a block of bash in a folder, and return what it wrote to stdout.

    A command that is tunescape's alone is a fork of a process that has imported everything.
    """
    output = ""
    for command in _COMMANDS.findall(text):
        if do := _done_by_hand(command, by_hand):
            output += do(command)
            continue
        words = shlex.split(command, comments=True)
        if words[:1] == ["tunescape"] and not _OF_THE_SHELL & set("".join(words)):
            own = {"PYTHONPATH": str(ROOT)}
            done = completed(*words[1:], cwd=folder, variables=own, timeout=600)
        else:
            done = run(["bash", "-euo", "pipefail", "-c", command], folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        output += done.stdout
    return output


def run_python(words: list[str], folder: Path) -> str:
    """Run Python to its end, and return what it wrote to stdout."""
    done = run([sys.executable, *words], folder)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _done_by_hand(code: str, by_hand: ByHand | None) -> Callable[[str], str] | None:
    return next((do for words, do in (by_hand or {}).items() if words in code), None)


def run(
    command: list[str], folder: Path, typed: str | None = None
) -> subprocess.CompletedProcess[str]:
    """A program that has run to its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        input=typed,
        capture_output=True,
        text=True,
        timeout=600,
    )


def play(command: str, folder: Path) -> str:
    """Play a game against a policy by typing the number of each place, and return what it said."""
    typed = "\n".join(str(place) for _ in range(5) for place in range(9)) + "\nq\n"
    done = run(["bash", "-c", command], folder, typed)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stderr


def free_ports(count: int) -> list[str]:
    """Ports that no program has."""
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


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
