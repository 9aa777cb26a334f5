"""`tunescape frames`: results as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.results.frames import make_frame, output_frame

app = typer.Typer(add_completion=False)


@app.command()
def frames(
    sources: Annotated[
        list[str],
        typer.Argument(help="Folders of sweeps (runs/<name> …), or mlflow:<experiment>/<sweep>."),
    ],
    what: Annotated[
        str, typer.Option(help="trials, curves, seeds, lineage (of a population), or cost.")
    ] = "trials",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File: .parquet or .csv; by default CSV to stdout."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Of curves: which to keep, by default all; of seeds: which one."),
    ] = None,
) -> None:
    """Write a sweep's results as a table, for your own analysis."""
    told = output_frame(make_frame(what, sources, metric or ()), output)
    if told:
        shell.output().print(told, highlight=False, soft_wrap=True, markup=False)
