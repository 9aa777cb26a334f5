"""`tunescape report`: the page about sweeps, and figures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.results.report import make_report

app = typer.Typer(add_completion=False)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of sweeps: runs/<name> …")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File; by default report.html in the sweep's folder."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="By default the sweep's objective.")] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures as PNG and PDF, for a paper.")
    ] = None,
    log_to_mlflow: Annotated[
        bool, typer.Option("--log-to-mlflow", help="Keep it with the sweep's MLflow run, too.")
    ] = False,
) -> None:
    """Write the report of one or several sweeps: an HTML page that works offline."""
    make_report(
        folders,
        output,
        metric=metric,
        mode=mode,
        title=title,
        figures=figures,
        log_to_mlflow=log_to_mlflow,
        console=shell.output(),
    )
