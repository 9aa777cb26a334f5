"""An estimate of what trials are worth against what they are worth, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.names import metric_label
from analysis.plots.curves import dress, new_figure, save
from analysis.ranking.agreement import TRUTH, agreement_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.results.records import Source

_CHOSEN, _BEST, _OTHERS = "#0b6bcb", "#c2410c", "0.62"
_MARKERS = "o^sDvP"  # of several sweeps


def plot_agreement(
    results: Source | Sequence[Source],
    estimate: str,
    truth: str = TRUTH,
    out: str | Path = "agreement.png",
    *,
    mode: str = "max",
) -> Path:
    """Draw each trial by an estimate and by the truth: who would be chosen, and who is best.

    Args:
        results: See `agreement_frame`, as the others.
        estimate: The flat name of the metric that trials are chosen by.
        truth: That of what they are worth.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        mode: `"max"` or `"min"`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `agreement_frame`; or the file cannot be written.
    """
    frame = agreement_frame(results, estimate, truth, mode)
    return save(draw_agreement(frame), out)


def draw_agreement(frame: pd.DataFrame) -> Figure:
    """Return the figure of `plot_agreement`.

    Args:
        frame: Of `agreement_frame`.
    """
    attrs = frame.attrs
    x, y = attrs["estimate"], attrs["truth"]
    best = int(frame["regret"].argmin())  # the first row from which on there is none
    figure = new_figure(6.4, 4.8)
    axes = figure.subplots()
    sweeps = frame["sweep"] if "sweep" in frame else pd.Series("", frame.index)
    for marker, (name, part) in zip(cycle(_MARKERS), frame.groupby(sweeps), strict=False):
        axes.scatter(part[x], part[y], s=32, color=_OTHERS, marker=marker, label=name, zorder=2)
    _mark(axes, frame.iloc[0], (x, y), _CHOSEN, "chosen by the estimate")
    if best:
        _mark(axes, frame.iloc[best], (x, y), _BEST, "truly best")
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label(y))
    axes.set_title(
        f"{len(frame)} trials: rank correlation {attrs['rank_correlation']:.2f} "
        f"({attrs['low']:.2f} to {attrs['high']:.2f}), regret {frame['regret'].iloc[0]:.4g}",
        fontsize="medium",
        loc="left",
    )
    dress(axes)
    axes.legend(frameon=False, loc="best", fontsize="small")
    return figure


def _mark(axes: Axes, row: pd.Series, columns: tuple[str, str], color: str, label: str) -> None:
    x, y = columns
    axes.scatter([row[x]], [row[y]], s=80, facecolor="none", edgecolor=color, lw=2, zorder=3)
    axes.scatter([], [], s=60, facecolor="none", edgecolor=color, lw=2, label=label)
