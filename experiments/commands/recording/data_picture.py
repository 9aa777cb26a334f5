"""What is in recorded experience, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.curves import dress, new_figure, save
from experiments.commands.recording.data_summary import ActionCounts, DataSummary
from experiments.errors import ExperimentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _ORANGE = "#0b6bcb", "#c8501e"
_MOST_ELEMENTS = 6  # of the actions that are drawn
_MOST_LABELS = 18


def plot_data(summary: DataSummary, out: Path) -> Path:
    """Draw returns, lengths beside returns, and how often which action was taken.

    Args:
        summary: What is in the data.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).

    Returns:
        The absolute path of the file.

    Raises:
        ExperimentError: There is nothing to draw.
        ResultsError: The file cannot be written.
    """
    if not summary.num_steps:
        raise ExperimentError(f"{summary.name}: no step could be read, so there is nothing to draw")
    elements = summary.actions[:_MOST_ELEMENTS]
    columns = max(2, min(3, len(elements)))
    rows = -(-len(elements) // columns)
    figure = new_figure(4.4 * columns, 3.2 * (1 + rows))
    halves: Any = figure.subfigures(2, 1, height_ratios=[1, max(1, rows)])
    top, bottom = halves
    _draw_episodes(summary, *top.subplots(1, 2))
    for number, counts in enumerate(elements):
        _draw_actions(counts, bottom.add_subplot(max(1, rows), columns, number + 1))
    episodes = f"{summary.num_episodes:,} episodes, {summary.num_steps:,} steps"
    figure.suptitle(
        f"{Path(summary.name).name or summary.name}: {episodes}",
        fontsize="medium",
        x=0.01,
        ha="left",
    )
    return save(figure, out)


def _draw_episodes(summary: DataSummary, left: Axes, right: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    returns, lengths = summary.returns, summary.lengths
    for axes, label in ((left, "return of an episode"), (right, "return of an episode")):
        dress(axes)
        axes.set_xlabel(label)
    left.set_ylabel("episodes")
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylabel("steps of the episode")
    if not len(returns):
        for axes in (left, right):
            axes.text(0.5, 0.5, "no whole episode", ha="center", transform=axes.transAxes)
        return
    left.hist(returns, bins=min(40, max(5, len(returns) // 2)), color=_BLUE)
    mean = float(returns.mean())
    left.axvline(mean, color=_ORANGE, lw=1.5, label=f"mean {mean:,.4g}")
    left.legend(frameon=False, fontsize="small")
    right.plot(returns, lengths, ".", color=_BLUE, ms=5, alpha=0.5, rasterized=len(returns) > 2000)
    right.set_ylim(bottom=0)


def _draw_actions(counts: ActionCounts, axes: Axes) -> None:
    dress(axes)
    shares = counts.counts / max(1, counts.counts.sum())
    axes.set_ylabel("share of the steps")
    if counts.is_choice:
        values = int(counts.low) + np.arange(len(shares))
        axes.bar(values, shares, color=_BLUE, width=0.8)
        if len(values) <= _MOST_LABELS:
            axes.set_xticks(values)
        axes.set_xlabel(counts.name if counts.name == "action" else f"action {counts.name}")
        return
    edges = np.linspace(counts.low, counts.high, len(shares) + 1)
    axes.bar(
        edges[:-1], shares, width=np.diff(edges), align="edge", color=_BLUE, ec="white", lw=0.4
    )
    at = (
        ""
        if counts.at_bounds is None
        else (f", {counts.at_bounds / max(1, counts.counts.sum()):.1%} at a bound")
    )
    axes.set_xlabel(f"action {counts.name}{at}")
