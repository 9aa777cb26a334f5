"""`tunescape report`: the page, and figures for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.metrics import LEGACY
from experiments.paths import shown_path

if TYPE_CHECKING:
    from rich.console import Console


def make_report(
    folders: Sequence[Path],
    out: Path | None,
    *,
    metric: str | None,
    mode: str | None,
    title: str | None,
    figures: Path | None,
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
        console: Where it is said.
    """
    from analysis.report import write_figures, write_report

    name = LEGACY.get(metric, metric) if metric else None
    page = write_report(list(folders), out, metric=name, mode=mode, title=title)
    size = page.stat().st_size / 1e6
    _say(f"Report: {shown_path(page)} ({size:.1f} MB)", console)
    if figures is not None:
        written = write_figures(list(folders), figures, metric=name, mode=mode)
        _say(f"Figures: {len(written)} files in {shown_path(figures.absolute())}", console)


def _say(line: str, console: Console) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)
