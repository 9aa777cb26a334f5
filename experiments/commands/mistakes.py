"""How an error or a warning of a command is told.

Every error that its user can mend is one message on stderr and exit status 2.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from typing import NoReturn, TextIO

from experiments.commands import shell
from experiments.terminal import say

EXIT_USAGE = 2
# What is wrong with a path that somebody gave, rather than with the machine.
_OF_PATHS = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
)


def tell(error: Exception) -> NoReturn:
    """End the command with what went wrong."""
    if shell.verbosity() >= 2:
        traceback.print_exc()
    if _is_users(error):
        _fail(str(error), getattr(error, "exit_status", EXIT_USAGE))
    if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_PATHS:
        _fail(f"{os.fsdecode(error.filename)}: {error.strerror}", EXIT_USAGE)
    _fail(f"{type(error).__name__}: {error} (-vv shows the traceback)", shell.EXIT_FAILED)


def _is_users(error: Exception) -> bool:
    """Tell whether the error is about what the user gave us, and says so by itself."""
    from analysis.errors import ResultsError
    from experiments.errors import ExperimentError, SpecError
    from trainables.core.errors import ConfigError

    return isinstance(error, (ExperimentError, SpecError, ConfigError, ResultsError))


def _fail(message: str, status: int) -> NoReturn:
    from rich.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print("Error:", style="bold red", end=" ")
    console.print(message, highlight=False, markup=False)
    raise SystemExit(status)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show what a spec's reader leaves out as a note; other warnings look as they do in Python."""
    from experiments.errors import SpecWarning

    if issubclass(category, SpecWarning):
        say(shell.errors(), f"Note: {message}")
    else:
        (file or sys.stderr).write(
            warnings.formatwarning(message, category, filename, lineno, line)
        )
