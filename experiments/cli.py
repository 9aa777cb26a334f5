"""The command `tunescape`: which commands there are, and how their mistakes are told.

Nothing heavy is imported here: `tunescape --help` answers at once. The module of a command is
imported when it is called.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import sys
import traceback
import warnings
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from experiments.commands import shell
from experiments.stop_signals import stop_signals
from experiments.terminal import say

EXIT_USAGE = 2
# What is wrong with a path that somebody gave, rather than with the machine.
_OF_PATHS = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
)

COMMANDS = {
    "run": ("run:run", "Run a sweep."),
    "resume": (
        "resume:resume",
        "Continue an interrupted sweep, or extend one. Finished trials are kept.",
    ),
    "evaluate": (
        "evaluate:evaluate",
        "Play episodes with a trained policy; report its return, and make videos or traces.",
    ),
    "record": (
        "record:record",
        "Play episodes and record them for BC, MARWIL, CQL, IQL, DQN and SAC to learn from.",
    ),
    "data": (
        "data:data",
        "Summarise recorded data, and list broken rows; the exit status is 1 if there are any.",
    ),
    "export": ("export:export", "Export the best policy of a sweep, or another policy."),
    "report": (
        "report:report",
        "Write the report of one or several sweeps: an HTML page that works offline.",
    ),
    "frames": ("frames:frames", "Write the results of sweeps as a table."),
    "compare": (
        "compare:compare",
        "Compare sweeps over a shared budget, and say if the data show a difference.",
    ),
    "list": ("listing:list_", "List the algorithms, search spaces and specs."),
    "space": ("space:space", "Show a search space."),
    "show": (
        "show_spec:show",
        "Show the complete spec with inherited keys and every default, or a Python script.",
    ),
    "schema": (
        "schema:schema",
        "Print the JSON schema of specs, for editors to complete and check them.",
    ),
    "watch": (
        "watch:watch",
        "Show a sweep in the browser while it runs: live curves, trials and settings.",
    ),
    "dashboard": (
        "dashboard:dashboard",
        "Show a sweep in Optuna's dashboard, while it runs and afterwards.",
    ),
    "ui": ("ui:ui", "Start the MLflow UI on this machine."),
    "train": (
        "train:app",
        "Train one algorithm on one environment; `train file` trains from a file.",
    ),
}
"""Each command's function in `experiments.commands` (the app of several), and what it does."""

_VERBOSE = ("-v", "-vv", "-vvv", "--verbose")


class _Commands(TyperGroup):
    """The commands; one that is cut off says how it goes on, and by what it was cut off.

    Typer's contexts and commands are classes of its own, which are private: hence `Any`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()
        }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let `-v` stand anywhere, behind the command too."""
        rest = [argument for argument in args if argument not in _VERBOSE]
        flags = [argument for argument in args if argument in _VERBOSE]
        return super().parse_args(ctx, [*flags, *rest] if rest else [])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called; its module is imported for that."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        return name, command_of(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with shell.until_end:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                shell.end(str(stop))


def command_of(name: str) -> Any:
    """Return a command of `COMMANDS`; its module is imported for that."""
    found = pkgutil.resolve_name(f"experiments.commands.{COMMANDS[name][0]}")
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return typer.main.get_command(found)


app = typer.Typer(
    cls=_Commands,
    help="Hyperparameter experiments in reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    """Of what is installed: nothing is imported for it."""
    if not asked:
        return
    from importlib import metadata

    for name in ("tunescape", "ray", "torch"):
        try:
            typer.echo(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:  # run from a source tree that is not installed
            typer.echo(f"{name} not installed")
    typer.echo(f"Python {sys.version.partition(' ')[0]}")
    raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            help="Show Tune's log, the trials' log, a dry run's defaults; -vv: DEBUG, tracebacks.",
        ),
    ] = 0,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show versions and exit."
        ),
    ] = False,
) -> None:
    shell.set_verbosity(verbose)


def tell(error: Exception) -> NoReturn:
    """End the command with what went wrong: one message on stderr, if its user can mend it."""
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
    """Show what is meant for users as a note; warnings for programmers look as they do in Python.

    With `-v` only those of a spec's reader are notes: where the others come from may matter.
    """
    from experiments.errors import SpecWarning

    if issubclass(category, SpecWarning if shell.verbosity() else UserWarning):
        say(shell.errors(), f"Note: {message}")
    else:
        (file or sys.stderr).write(
            warnings.formatwarning(message, category, filename, lineno, line)
        )


def main() -> None:
    """Run the command line; the entry point `tunescape`."""
    warnings.showwarning = show_warning
    # Specs may name environments and trainables in modules of the current folder.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with stop_signals():
            app(args=sys.argv[1:], prog_name="tunescape")
    except Exception as error:
        tell(error)


if __name__ == "__main__":
    main()
