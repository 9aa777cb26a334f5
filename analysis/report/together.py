"""Several sweeps side by side, on top of their report."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.comparison.comparison import compare
from analysis.comparison.outcome import Comparison
from analysis.figures.comparison import comparison_figures
from analysis.names import metric_label
from analysis.numbers import duration, is_number, number, steps
from analysis.overview.overview import ReportData
from analysis.report.blocks import Block
from analysis.report.sections import Panels, drawn_panels
from analysis.report.tables import Cell, Table
from analysis.results.rows import ResultsError

KEY = "comparison"


def comparison_block(sweeps: Sequence[ReportData]) -> Block | None:
    """The comparison of the sweeps, or why they cannot be compared; None for a single one."""
    if len(sweeps) < 2:
        return None
    block = Block(KEY, "Comparison")
    judged = {(data.metric, data.mode) for data in sweeps}
    if len(judged) > 1:
        names = ", ".join(sorted(metric for metric, _ in judged))
        block.words.append(f"The sweeps have different objectives ({names}): no comparison.")
        return block
    (metric, mode) = judged.pop()
    try:
        found = compare([data.sweep for data in sweeps], metric, mode)
    except ResultsError as error:
        why = str(error)
        for data in sweeps:  # by name, not by path: the page is passed on
            why = why.replace(str(data.folder), data.name)
        block.words.append(f"The sweeps cannot be compared: {why}.")
        return block
    block.words += found.lines
    block.tables.append(_table(found))
    block.panels = Panels()
    drawn_panels(block.panels, comparison_figures(found), "", KEY)
    block.cautions = found.cautions
    block.notes = found.notes
    return block


def _table(found: Comparison) -> Table:
    """Return a row for each sweep or algorithm, the best interquartile mean first."""
    scaled = bool(found.tasks["low"].notna().all())  # of several tasks: then higher is better
    least = found.mode == "min" and not scaled
    frame = found.summary.sort_values("iqm", ascending=least, kind="stable")
    rows = []
    for row in frame.to_dict("records"):
        rows.append(
            [
                Cell(str(row["algorithm"])),
                Cell(number(row["iqm"]), _order(row["iqm"])),
                Cell(f"{number(row['iqm_low'])} to {number(row['iqm_high'])}", _order(row["iqm"])),
                Cell(number(row["runs"]), _order(row["runs"])),
                Cell(duration(row["seconds"]), _order(row["seconds"])),
                Cell(steps(row["total_env_steps"]), _order(row["total_env_steps"])),
            ]
        )
    what = f"{'normalised ' if scaled else ''}{metric_label(found.metric)}"
    heads = ["Sweep", f"IQM of the {what}", "95 % interval", "Runs"]
    heads += ["Time of a run", "Env steps of the sweep"]
    return Table(heads, [False, *[True] * 5], rows)


def _order(value: object) -> float | None:
    return float(value) if is_number(value) and value == value else None  # type: ignore[arg-type]
