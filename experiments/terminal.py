"""Consoles: as wide as the terminal, or wide enough for a log file."""

from __future__ import annotations

from rich.console import Console

_LOG_WIDTH = 160


def make_console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout or stderr."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)
