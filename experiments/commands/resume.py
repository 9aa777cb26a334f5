"""`tunescape resume`: continue a sweep or a matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.options import AddressOption
from experiments.workers.warm import start_server


def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep or matrix: runs/<name>.")],
    num_samples: Annotated[
        int | None, typer.Option(min=1, help="More trials: the new total number.")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=VALUE",
            help="Longer budget; finished trials continue from their last checkpoints.",
        ),
    ] = None,
    retry_errored: Annotated[
        bool, typer.Option("--retry-errored", help="Continue failed trials from their checkpoints.")
    ] = False,
    restart_errored: Annotated[
        bool, typer.Option("--restart-errored", help="Start failed trials again.")
    ] = False,
    address: AddressOption = None,
) -> None:
    """Continue an interrupted sweep, or extend one. Finished trials are kept."""
    shell.begin(f"reading {folder}")
    if address is None:
        start_server()  # beside the imports that follow
    from experiments.commands.sweeps import resume_all, resume_one
    from experiments.errors import SweepError
    from experiments.running.extension import parse_stop
    from experiments.running.matrix_state import is_matrix
    from experiments.spec.paths import command_line

    if not is_matrix(folder):
        resume_one(
            folder,
            num_samples=num_samples,
            stop=parse_stop(stop or []),
            retry_errored=retry_errored,
            restart_errored=restart_errored,
            address=address,
        )
        return
    if num_samples is not None or stop or restart_errored:
        raise SweepError(
            f"{folder} is a matrix; extend its sweeps one by one: "
            f"`{command_line('resume', folder / 'SWEEP')} …`"
        )
    resume_all(folder, retry_errored=retry_errored, address=address)
