"""A comparison as a picture: values, sample efficiency, and which is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.comparison.outcome import Comparison
from analysis.names import metric_label
from analysis.palette import BLUE, GREEN, GREY, ORANGE, PURPLE
from analysis.plots.curves import dress, new_figure, save, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#a3541e", "#b3478f", "#5c6b10", GREY)
_DASHES = ("-", "--", "-.", ":")
_WIDTH = 9.0


def plot_comparison(found: Comparison, out: str | Path = "comparison.png") -> Path:
    """Draw the runs and the IQM of each algorithm, the curves, and the pairs' probabilities.

    With a threshold, also the part of the runs that reached it along the budget.

    Args:
        found: What `analysis.compare` gave.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: The file cannot be written.
    """
    return save(draw_comparison(found), out)


def draw_comparison(found: Comparison) -> Figure:
    """Return the figure of `plot_comparison`."""
    algorithms, pairs = len(found.summary), len(found.pairs)
    upper, lower = 1.3 + 0.42 * max(algorithms, 2), 1.3 + 0.42 * pairs
    figure = new_figure(_WIDTH, upper + 3.4 + lower)
    values, curves, improvement = figure.subplots(3, 1, height_ratios=[upper, 3.4, lower])
    label = metric_label(found.metric)
    if found.tasks["low"].notna().all():
        label = f"normalised {label}"
    _draw_values(values, found, label)
    _draw_curves(curves, found, label)
    _draw_pairs(improvement, found)
    for axes in (values, curves, improvement):
        dress(axes, grid="both" if axes is curves else "x")
    return figure


def _draw_values(axes: Axes, found: Comparison, label: str) -> None:
    for row, (algorithm, colour) in enumerate(_colours(found).items()):
        runs = found.runs.loc[found.runs["algorithm"] == algorithm, "score"].to_numpy(float)
        axes.plot(runs, [row] * len(runs), "|", color="0.6", ms=11, zorder=1)
        at = found.summary.iloc[row]
        ends = at["iqm_low"], at["iqm_high"]
        axes.plot(ends, [row, row], color=colour, lw=3.2, solid_capstyle="butt", zorder=2)
        axes.plot(at["iqm"], row, "o", color=colour, ms=8, zorder=3)
    rows = zip(found.summary["algorithm"], found.summary["runs"], strict=True)
    _name_rows(axes, [f"{shortened(name)} ({runs})" for name, runs in rows])
    axes.set_xlabel(label)
    percent = f"{100 * found.confidence:g} %"
    title = f"IQM with {percent} interval; strokes are runs, their number in brackets"
    axes.set_title(title, fontsize="medium", loc="left")


def _draw_curves(axes: Axes, found: Comparison, label: str) -> None:
    from matplotlib.ticker import EngFormatter, PercentFormatter

    shared = found.budget is not None
    for number, (algorithm, colour) in enumerate(_colours(found).items()):
        curve = found.curves[found.curves["algorithm"] == algorithm]
        x = curve["budget" if shared else "share"].to_numpy(float)
        # A value holds until the next report.
        low, high = curve["low"].to_numpy(float), curve["high"].to_numpy(float)
        axes.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, step="post")
        dash = _DASHES[number % len(_DASHES)]
        axes.step(
            x, curve["iqm"], where="post", color=colour, lw=2.2, ls=dash, label=shortened(algorithm)
        )
    if found.threshold is not None:
        label_of_it = f"threshold {found.threshold:g}"
        axes.axhline(found.threshold, color="0.3", lw=1.0, ls=(0, (1, 2)), label=label_of_it)
    if not shared:
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    elif found.budget and found.budget >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    name = metric_label(found.x)
    axes.set_xlabel(name if shared else f"share of each task's budget ({name})")
    axes.set_ylabel(label)
    axes.margins(x=0.01)
    axes.legend(frameon=False, fontsize="small", loc="best", handlelength=3.2)
    axes.set_title("Sample efficiency: IQM over runs, interval of each point by itself",
                   fontsize="medium", loc="left")  # fmt: skip


def _draw_pairs(axes: Axes, found: Comparison) -> None:
    axes.axvline(0.5, color="0.3", lw=1.0, ls="--", zorder=1)
    for row, pair in enumerate(found.pairs.to_dict("records")):
        shown = pair["better"] and not pair["handicap"]
        colour = BLUE if shown else "0.55"
        ends = [pair["low"], pair["high"]]
        axes.plot(ends, [row, row], color=colour, lw=3.2, solid_capstyle="butt", zorder=2)
        face = colour if shown else "white"
        axes.plot(pair["probability"], row, "o", mfc=face, mec=colour, mew=1.8, ms=8, zorder=3)
    sides = zip(found.pairs["a"], found.pairs["b"], strict=True)
    names = [f"{shortened(a)}\nover {shortened(b)}" for a, b in sides]
    _name_rows(axes, names)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability of improvement (0.5: neither is better)")
    several = f", for all {len(names)} pairs at once" if len(names) > 1 else ""
    title = f"Probability of improvement{several}; filled: shown, hollow: not shown"
    axes.set_title(title, fontsize="medium", loc="left")


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _colours(found: Comparison) -> dict[str, str]:
    names = found.summary["algorithm"]
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
