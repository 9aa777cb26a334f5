"""`tunescape report`: the page about sweeps, and figures for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.home import expanded
from experiments.commands import shell
from experiments.errors import ExperimentError
from experiments.spec.metrics import LEGACY
from experiments.spec.paths import REPORT_FILE, shown_path
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of sweeps: runs/<name> …")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File; default: report.html in the sweep's folder."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric; default: the sweep's objective.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures as PNG and PDF, for a paper.")
    ] = None,
    log_to_mlflow: Annotated[
        bool, typer.Option("--log-to-mlflow", help="Also store it in the sweep's MLflow run.")
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


def make_report(
    folders: Sequence[Path],
    out: Path | None,
    *,
    metric: str | None,
    mode: str | None,
    title: str | None,
    figures: Path | None,
    log_to_mlflow: bool,
    console: Console,
) -> None:
    """Write the report of one or several sweeps, and say where it is.

    Args:
        folders: The sweeps' folders.
        out: The file; see `analysis.report.write_report`.
        metric: What trials are judged by; older names are allowed.
        mode: `max` or `min`.
        title: The page's title.
        figures: A folder for figures as PNG and PDF, if wanted.
        log_to_mlflow: Whether the sweep's run in MLflow gets the page, and what else its folder
            holds of results. It is then written to the folder of the one sweep.
        console: Where it is said.

    Raises:
        ExperimentError: `log_to_mlflow` with several sweeps, one in MLflow or another file; MLflow
            was off, does not answer, or has no run of the sweep.
    """
    from analysis.report import write_figures, write_report

    if log_to_mlflow:
        out = _page_of_run(folders, out)
    name = LEGACY.get(metric, metric) if metric else None
    page = write_report(list(folders), out, metric=name, mode=mode, title=title)
    size = page.stat().st_size / 1e6
    say(console, f"Report: {shown_path(page)} ({size:.1f} MB)")
    if log_to_mlflow:
        from experiments.commands.results.sweep_artifacts import log_artifacts_of_sweep

        say(console, log_artifacts_of_sweep(folders[0]))
    if figures is not None:
        written = write_figures(list(folders), figures, metric=name, mode=mode)
        say(console, f"Figures: {len(written)} files in {shown_path(figures.absolute())}")


def _page_of_run(folders: Sequence[Path], out: Path | None) -> Path:
    """Return the page that a sweep's run shows: the one in its folder."""
    from experiments.commands.results.sweep_artifacts import check_log_of_sweep

    if len(folders) != 1:
        raise ExperimentError(
            f"--log-to-mlflow takes one sweep, not {len(folders)}; its run gets the page"
        )
    page = expanded(folders[0]).absolute() / REPORT_FILE
    if out is not None and expanded(out).absolute() != page:
        raise ExperimentError(f"--log-to-mlflow logs {page}: leave --output {out} out")
    check_log_of_sweep(folders[0])
    return page
