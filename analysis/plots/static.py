"""The figures of a report as files for a paper: PNG and PDF, by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from analysis.names import SECONDS
from analysis.overview.overview import ReportData
from analysis.plots.agreement import draw_agreement
from analysis.plots.curves import plot_learning_curves, save
from analysis.plots.effects import plot_effects
from analysis.plots.fronts import plot_pareto
from analysis.plots.lineage import plot_lineage

FORMATS = ("png", "pdf")

Plot = Callable[[Path], Any]


def write_static(data: ReportData, folder: Path) -> list[Path]:
    """Write the figures that fit the sweep.

    Args:
        data: The sweep.
        folder: The folder for them: `learning_curves.png` and `.pdf`, and so on.

    Returns:
        The files, absolute paths.

    Raises:
        ResultsError: A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in _plots(data):
        for ending in FORMATS:
            file = folder.absolute() / f"{name}.{ending}"
            plot(file)
            written.append(file)
    return written


def _plots(data: ReportData) -> Iterator[tuple[str, Plot]]:
    """Yield the name of each figure that has something to show, and the function that draws it."""
    if data.winner is None:
        return
    sweep, metric, mode = data.sweep, data.metric, data.mode
    yield "learning_curves", lambda out: plot_learning_curves(sweep, metric, out, mode=mode)
    if SECONDS in data.axes:
        yield (
            "learning_curves_by_time",
            lambda out: plot_learning_curves(sweep, metric, out, mode=mode, x=SECONDS),
        )
    if (effects := data.effects) is not None:
        yield "effects", lambda out: plot_effects(effects, out=out)
    if data.lineage:
        yield "lineage", lambda out: plot_lineage(data.sweep, metric, out, mode=mode)
    if data.pareto is not None and len(objectives := data.pareto.attrs["objectives"]) == 2:
        yield "cost", lambda out: plot_pareto(sweep, objectives, out)
    for name, agreement in data.agreements.items():
        if not isinstance(agreement, str):
            yield f"agreement_{name}", partial(save, draw_agreement(agreement))
