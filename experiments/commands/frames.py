"""`tunescape frames`: results as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands import shell
from experiments.errors import SweepError
from experiments.spec.metrics import LEGACY
from experiments.terminal import say
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    import pandas as pd

WHAT = ("trials", "curves", "seeds", "lineage", "cost")


def make_frame(what: str, sources: Sequence[str], metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Return one of the frames of `analysis`.

    Args:
        what: The frame, one of `WHAT`.
        sources: Sweeps, folders of sweeps, or ``mlflow:<experiment>/<sweep>``; of a single sweep's
            folder the rows do not name the sweep.
        metrics: Those that curves keep (default: all), or the one of seeds (default: the return),
            of which older names are known.

    Raises:
        SweepError: `what` is unknown, or has no use for the metrics.
        ResultsError: A source holds no sweep, or no trial reported a metric.
    """
    from analysis.frames.cost import cost_frame
    from analysis.frames.frames import curves_frame, trials_frame
    from analysis.frames.seeds import seeds_frame
    from analysis.overview.lineage import lineage_frame

    if what not in WHAT:
        raise SweepError(
            f"--what {what}: there is no such table; allowed: {', '.join(WHAT)}"
            f"{suggestion(what, WHAT)}"
        )
    given = sources[0] if len(sources) == 1 else list(sources)
    if what == "curves":
        return curves_frame(given, metrics or None)
    if what == "seeds":
        if len(metrics) > 1:
            raise SweepError(f"--metric {', '.join(metrics)}: seeds are of one metric at a time")
        return seeds_frame(given, *(LEGACY.get(metric, metric) for metric in metrics))
    if metrics:
        raise SweepError(f"--metric {metrics[0]}: {what} have no metric to choose")
    makers: dict[str, Callable[..., pd.DataFrame]] = {
        "trials": trials_frame,
        "lineage": lineage_frame,
        "cost": cost_frame,
    }
    return makers[what](given)


def output_frame(frame: pd.DataFrame, output: Path | None) -> str:
    """Write a frame to a file, or as CSV to stdout; return what to tell the user, if anything."""
    from analysis.frames.write import write_frame
    from experiments.spec.paths import shown_path

    if output is None:
        frame.to_csv(sys.stdout, index=False)
        return ""
    path = write_frame(frame, output)
    return f"{len(frame)} rows, {len(frame.columns)} columns: {shown_path(path)}"


def frames(
    sources: Annotated[
        list[str],
        typer.Argument(help="Folders of sweeps (runs/<name> …), or mlflow:<experiment>/<sweep>."),
    ],
    what: Annotated[
        str,
        typer.Option(help="The table: trials, curves, seeds, lineage (of a population), or cost."),
    ] = "trials",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File: .parquet or .csv; default: CSV to stdout."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Metrics of the curves, by default all; or the metric of the seeds."),
    ] = None,
) -> None:
    """Write the results of sweeps as a table."""
    told = output_frame(make_frame(what, sources, metric or ()), output)
    if told:
        say(shell.output(), told)
