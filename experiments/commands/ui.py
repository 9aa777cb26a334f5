"""`tunescape ui`: MLflow's pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell


def ui(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a sweep, or a folder with several sweeps.")
    ] = Path("runs"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Start the MLflow UI on this machine."""
    from experiments.commands.results.tracking_ui import serve

    raise typer.Exit(serve(folder, port, shell.output()))
