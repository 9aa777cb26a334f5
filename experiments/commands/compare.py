"""`tunescape compare`: which sweep is better, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.names import ENV_STEPS
from experiments.commands import shell
from experiments.commands.results.comparison import (
    check_files,
    compare_folders,
    show_comparison,
    write_comparison,
)
from experiments.spec.metrics import canonical_metric
from experiments.spec.paths import shown_path

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    folders: Annotated[
        list[str],
        typer.Argument(help="Two or more sweeps: FOLDER or LABEL=FOLDER; a matrix's is several."),
    ],
    metric: Annotated[str | None, typer.Option(help="By default the sweeps' objective.")] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="By default the largest that all runs reached.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="What a budget counts: a metric such as time_total_s.")
    ] = ENV_STEPS,
    threshold: Annotated[
        float | None, typer.Option(help="Also: the budget at which runs reach this value.")
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What a run is: held-out, best, trials, or the fairest (auto).")
    ] = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="ENV=LOW,HIGH", help="Scores that count as 0 and 1 on a task."),
    ] = None,
    as_: Annotated[str, typer.Option("--as", help="table, markdown or json.")] = "table",
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="File: .png, .pdf, .svg, .csv, .json or .md."),
    ] = None,
) -> None:
    """Compare sweeps: which is better over a shared budget, and how sure that is."""
    check_files(as_, output or ())
    found = compare_folders(
        folders,
        metric=metric,
        mode=mode,
        budget=budget,
        x=canonical_metric(by),
        threshold=threshold,
        unit=unit,
        reference=reference or (),
    )
    show_comparison(found, as_, shell.output())
    for path in write_comparison(found, output or ()):
        shell.errors().print(
            f"Wrote {shown_path(path)}", highlight=False, soft_wrap=True, markup=False
        )
