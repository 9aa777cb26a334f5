"""A sweep as a notebook shows it: words, the best trials and the learning curves."""

from __future__ import annotations

import base64
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.overview.overview import ReportData
from analysis.plots.curves import plot_learning_curves
from analysis.report.markup import with_code
from analysis.report.tables import Table, leaderboard_table
from analysis.report.words import summary
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source

_TOP = 10


class SweepResult:
    """A sweep as the last line of a notebook's cell shows it.

    Example:
        >>> SweepResult("runs/quickstart")

    Args:
        results: A `ResultGrid`, a `Sweep` or the path of a sweep folder, finished or not.
        metric: What trials are judged by; by default the spec's objective.
        mode: `"max"` or `"min"`; by default that of the spec's objective.

    Raises:
        ResultsError: There is no such sweep, or `mode` is unknown.
    """

    def __init__(self, results: Source, metric: str | None = None, mode: str | None = None) -> None:
        self._data = ReportData(results, metric, mode)

    def __repr__(self) -> str:
        return f"{self._data.name}: {' '.join(summary(self._data).sentences)}"

    def _repr_html_(self) -> str:
        data, said = self._data, summary(self._data)
        parts = [f"<h4>{escape(data.name)}</h4>", f"<p>{with_code(' '.join(said.sentences))}</p>"]
        if said.cautions:
            cautions = "".join(f"<li>{with_code(caution)}</li>" for caution in said.cautions)
            parts.append(f"<ul>{cautions}</ul>")
        parts.append(_html(leaderboard_table(data, _TOP, {})))
        try:
            parts.append(_picture(data))
        except ResultsError as error:  # nothing to draw
            parts.append(f"<p>{escape(str(error))}</p>")
        return "\n".join(parts)


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = ["".join(f"<td>{escape(cell.text)}</td>" for cell in row) for row in table.rows[:_TOP]]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _picture(data: ReportData) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = plot_learning_curves(
            data.sweep, data.metric, Path(folder) / "curves.png", mode=data.mode
        )
        encoded = base64.b64encode(file.read_bytes()).decode()
    return f'<img width="720" alt="Learning curves" src="data:image/png;base64,{encoded}">'
