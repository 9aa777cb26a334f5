"""The report of one or several sweeps: a single HTML page that works offline.

`write_report` reads the sweeps and writes the page: words, tables and figures. What it shows of a
sweep is `ReportData`; `sections.SECTIONS` is the order of its figures.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.home import expanded

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

FILE_NAME = "report.html"
_TOP = 10


def write_report(
    sources: Any,
    out: str | Path | None = None,
    *,
    metric: str | None = None,
    mode: str | None = None,
    title: str | None = None,
) -> Path:
    """Write the report of one or several sweeps.

    The page holds everything that it shows, plotly included: it makes no request, prints, and has
    a light and a dark theme.

    Args:
        sources: A `ResultGrid`, a `Sweep`, the path of a sweep folder or of a folder that holds
            sweeps; or several of them.
        out: The file; by default `report.html` in the sweep's folder, or in the folder that holds
            the sweeps' folders if there are several; in the current folder if one is MLflow's.
        metric: What trials are judged by; by default each spec's objective.
        mode: `"max"` or `"min"`; by default that of the objective.
        title: The heading; by default the sweeps' names.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: A folder holds no sweep, no trial of any sweep reported a metric that was
            named, or the file cannot be written.
    """
    from analysis.report.blocks import comparison_block, sweep_page
    from analysis.report.page import Page, render

    sweeps = _read(sources, metric, mode)
    keys = ["s"] if len(sweeps) == 1 else [f"s{number}" for number in range(1, len(sweeps) + 1)]
    pages = [sweep_page(data, key, _TOP) for data, key in zip(sweeps, keys, strict=True)]
    name = title or " and ".join(", ".join(data.name for data in sweeps).rsplit(", ", 1))
    together = comparison_block(sweeps)
    page = Page(name, pages, [together] if together else [])
    return _write(render(page), Path(out) if out else _default(sweeps))


def write_figures(
    sources: Any, folder: str | Path, *, metric: str | None = None, mode: str | None = None
) -> list[Path]:
    """Write the figures of one or several sweeps as PNG and PDF, for a paper.

    Args:
        sources: See `write_report`.
        folder: The folder for them; of several sweeps each has a folder of its name.
        metric: See `write_report`.
        mode: See `write_report`.

    Returns:
        The files, absolute paths.

    Raises:
        ResultsError: As of `write_report`, or a sweep's name leads out of the folder.
    """
    from analysis.plots.static import write_static

    sweeps = _read(sources, metric, mode)
    target = expanded(folder).absolute()
    if len(sweeps) == 1:
        return write_static(sweeps[0], target)
    folders = [_inside(target, data.name) for data in sweeps]
    return [
        file
        for data, place in zip(sweeps, folders, strict=True)
        for file in write_static(data, place)
    ]


def _read(sources: Any, metric: str | None, mode: str | None) -> list[ReportData]:
    from analysis.overview.overview import ReportData
    from analysis.results.sources import load_sweeps

    sweeps = [ReportData(sweep, metric, mode) for sweep in load_sweeps(sources)]
    if metric is not None and not any(data.reported for data in sweeps):
        sweeps[0].sweep.require_metric(metric)
    return sweeps


def _inside(folder: Path, name: str) -> Path:
    """Return the folder of a sweep's name in another one; a name may have slashes."""
    from analysis.results.records import ResultsError

    place = Path(os.path.normpath(folder / name))
    if not place.is_relative_to(os.path.normpath(folder)):
        raise ResultsError(f"the sweep's name {name!r} leads out of the folder {folder}")
    return place


def _default(sweeps: list[ReportData]) -> Path:
    from analysis.results.load import is_mlflow

    if any(is_mlflow(data.folder) for data in sweeps):  # they have no folder
        return Path.cwd() / FILE_NAME
    if len(sweeps) == 1:
        return sweeps[0].folder / FILE_NAME
    return Path(os.path.commonpath([data.folder.parent for data in sweeps])) / FILE_NAME


def _write(text: str, out: Path) -> Path:
    from analysis.results.records import ResultsError

    target = expanded(out).absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f".{target.name}.tmp")
        try:
            half.write_text(text, encoding="utf-8")
            os.replace(half, target)  # whole or not at all
        finally:
            half.unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(f"{target}: cannot write the report ({error})") from error
    return target
