"""The lineage of a population as a picture: the tree, and the settings of one line of descent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.names import metric_label
from analysis.overview.lineage import (
    Exploit,
    ancestry,
    line_of_descent,
    read_lineage,
    schedule,
    segments,
    winner,
)
from analysis.plots.curves import new_figure, save
from analysis.results.load import load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from analysis.results.records import Source

_MAX_SETTINGS = 6
_BEST, _OTHER = "#0b6bcb", "0.72"


def plot_lineage(
    results: Source,
    metric: str = "episode_return_mean",
    out: str | Path = "lineage.png",
    *,
    mode: str = "max",
    trial: str | None = None,
) -> Path:
    """Draw who went on from whom, and the settings that the winner's weights were trained with.

    Args:
        results: The folder of a PBT or PB2 sweep, or what else `load_sweep` takes that has one.
        metric: The objective, which says who is the winner.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        mode: `"max"` or `"min"`: what is best.
        trial: Whose line of descent stands out; by default that of the best last result.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: The sweep has no lineage, or the file cannot be written.
    """
    sweep = load_sweep(results)
    exploits = read_lineage(sweep.path)
    if not exploits:
        raise ResultsError(f"{sweep.path}: no trial was replaced: there is no lineage to draw")
    best = trial or winner(sweep, metric, mode)
    changes = schedule(exploits, best) if ancestry(exploits, best) else []
    names = [name for name in (changes[0][1] if changes else {})][:_MAX_SETTINGS]
    rows = 1 + len(names)
    height = 1.2 + 0.34 * len(sweep.trials)
    figure = new_figure(8.0, height + 1.3 * len(names))
    axes = figure.subplots(
        rows, 1, sharex=True, squeeze=False, height_ratios=[height, *[1.3] * len(names)]
    )[:, 0]
    time_attr = exploits[0].time_attr
    end = _draw_tree(axes[0], sweep, exploits, best, time_attr)
    for panel, name in zip(axes[1:], names, strict=True):
        _draw_setting(panel, name, changes, end)
    axes[0].set_title(
        f"{sweep.name}: {len(exploits)} exploits; the line that ends in {best}",
        fontsize="medium",
        loc="left",
    )
    axes[-1].set_xlabel(metric_label(time_attr))
    return save(figure, out)


def _draw_tree(
    axes: Axes, sweep: Sweep, exploits: list[Exploit], best: str, time_attr: str
) -> float:
    """Return a line for each trial, an arrow for each exploit; returns the greatest budget."""
    from matplotlib.ticker import EngFormatter

    height = {trial.trial_id: -number for number, trial in enumerate(sweep.trials)}
    ends = {
        trial.trial_id: float(trial.frame[time_attr].iloc[-1])
        for trial in sweep.trials
        if time_attr in trial.frame.columns and len(trial.frame)
    }
    bold = line_of_descent(exploits, best, ends.get(best, 0.0))
    for trial, y in height.items():
        for number, (start, end) in enumerate(segments(exploits, trial, ends.get(trial, 0.0))):
            axes.plot([start, end], [y, y], color=_OTHER, lw=2.0, solid_capstyle="butt", zorder=1)
            if number < sum(e.trial == trial for e in exploits):
                axes.plot(end, y, "x", color="0.45", ms=5, zorder=2)
    for trial, (start, end) in bold:
        y = height.get(trial, 0)
        axes.plot([start, end], [y, y], color=_BEST, lw=3.4, solid_capstyle="butt", zorder=3)
    own = {exploit.number for exploit in ancestry(exploits, best)}
    for exploit in exploits:
        if exploit.trial not in height or exploit.donor not in height:
            continue
        axes.annotate(
            "",
            xy=(exploit.donor_budget, height[exploit.trial]),
            xytext=(exploit.donor_budget, height[exploit.donor]),
            arrowprops={
                "arrowstyle": "-|>",
                "color": _BEST if exploit.number in own else "0.6",
                "lw": 1.8 if exploit.number in own else 0.9,
                "shrinkA": 0,
                "shrinkB": 1,
            },
            zorder=4 if exploit.number in own else 2,
        )
    axes.set_yticks(list(height.values()), list(height), fontsize="x-small")
    axes.margins(x=0.01, y=0.08)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    greatest = max([*ends.values(), *(e.budget for e in exploits)], default=0.0)
    if greatest >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    return greatest


def _draw_setting(
    axes: Axes, name: str, changes: list[tuple[float, dict[str, Any]]], end: float
) -> None:
    """Draw a setting of the line of descent, in steps."""
    budgets = [budget for budget, _ in changes] + [end]
    values = [settings.get(name) for _, settings in changes]
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    heights: list[float]
    if len(numbers) == len(values):
        heights = [float(v) for v in numbers]
        if min(heights) > 0 and max(heights) / min(heights) > 5:
            axes.set_yscale("log")
    else:  # kinds of things: one level each, in order of appearance
        levels = list(dict.fromkeys(map(str, values)))
        heights = [float(levels.index(str(value))) for value in values]
        axes.set_yticks(range(len(levels)), levels, fontsize="x-small")
    finite = [height for height in heights if math.isfinite(height)]
    if len(finite) == len(heights):
        axes.step(budgets, [*heights, heights[-1]], where="post", color=_BEST, lw=1.8)
    axes.set_ylabel(name, fontsize="x-small", rotation=0, ha="right", va="center")
    axes.tick_params(axis="y", labelsize="x-small")
    axes.grid(True, color="0.92", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
