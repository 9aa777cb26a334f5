"""What all commands share: consoles, the line that says what goes on, verbosity, how they end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from experiments.activity import activity_console, doing, nothing_to_tell, shown_activity
from experiments.stop_signals import interrupted_status, received
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

EXIT_FAILED = 1

until_end = ExitStack()
"""What is shown for as long as the command runs."""

_verbosity = 0


def set_verbosity(count: int) -> None:
    """Note how often `-v` was given."""
    global _verbosity
    _verbosity = count


def verbosity() -> int:
    """Return how often `-v` was given: 1 shows logs, 2 debugging output and tracebacks."""
    return _verbosity


def begin(what: str) -> None:
    """Show what the command is doing from here on; until it ends, or has something to show."""
    until_end.enter_context(shown_activity(errors()))
    doing(what)


def output() -> Console:
    """Return the console for what was asked for; what the command was doing is no longer shown."""
    from experiments.terminal import make_console

    nothing_to_tell()
    return make_console()


def errors() -> Console:
    """Return the console for everything else."""
    from experiments.terminal import make_console

    return activity_console() or make_console(stderr=True)


def end(message: str) -> NoReturn:
    """End a command that was cut off."""
    signal = received()
    cause = f"Interrupted by {signal.name}" if signal else "Interrupted"
    text = f"{cause}: {message}" if message else cause
    say(errors(), text)
    raise SystemExit(interrupted_status())


def end_kept(folder: Path) -> NoReturn:
    """End a sweep or matrix that was cut off, and saved."""
    from experiments.spec.paths import saved_line

    if received():
        end(saved_line(folder))
    raise SystemExit(interrupted_status())  # after Ctrl-C what came out was shown
