"""The commands of a page, as its reader would type them one after another."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from forked_drivers import completed

ROOT = Path(__file__).parents[1]
_COMMANDS = re.compile(r"^[^\n]*<<'EOF'\n.*?^EOF$|^[^\n]+$", re.DOTALL | re.MULTILINE)
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
