"""The importance of a sweep's settings as a picture: a bar per setting, ranked."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.importance import importance_frame
from analysis.plots import metric_label, new_figure, save
from analysis.surrogate import Surrogate
from analysis.surrogate_data import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.records import Source

_COLOR = "#0b6bcb"
_WEAK = "0.7"
_TOP = 15
_AXIS = {
    "fanova": "share of the variance explained by the setting alone (fANOVA)",
    "permutation": "fall of the R² of unseen trials when shuffled (permutation)",
}


def plot_importance(
    results: Source | Surrogate | pd.DataFrame,
    metric: str = "episode_return_mean",
    out: str | Path = "importance.png",
    *,
    mode: str = "max",
    method: str = "fanova",
    at_budget: Budget = None,
) -> Path:
    """Draws the 15 most important settings, with the range over forests, and the caution if any.

    The bars are grey where the settings explain nothing.

    Args:
        results: As of `importance_frame`, or what it returned (then the other arguments are the
            frame's).
        metric: The flat name of the metric.
        out: The file to write; its ending says the format (``.png``, ``.pdf``, ``.svg``).
        mode: ``"max"`` or ``"min"``.
        method: ``"fanova"`` or ``"permutation"``.
        at_budget: As of `importance_frame`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `importance_frame`; or the file cannot be written.
    """
    frame = results
    if not isinstance(frame, pd.DataFrame):
        frame = importance_frame(frame, metric, mode, method=method, at_budget=at_budget)
    shown = frame.head(_TOP)
    caution = textwrap.fill(frame.attrs["caution"], 110)
    lines = caution.count("\n") + 1 if caution else 0
    figure = new_figure(8.0, 1.4 + 0.38 * len(shown) + 0.18 * lines)
    axes = figure.subplots()
    color = _WEAK if "explain nothing" in caution else _COLOR
    places = range(len(shown))
    axes.barh(places, shown["importance"], height=0.62, color=color, alpha=0.85, zorder=2)
    axes.hlines(places, shown["low"], shown["high"], color="0.15", lw=1.4, zorder=3)
    for place, row in zip(places, shown.to_dict("records"), strict=True):
        axes.annotate(
            f"{row['importance']:.2f}",
            (max(row["high"], row["importance"], 0), place),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color="0.2",
        )
    axes.axvline(0, color="0.25", lw=1.0, zorder=4)
    axes.set_ylim(len(shown) - 0.4, -0.6)  # the first rank on top
    axes.set_yticks(places, shown["setting"])
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    axes.grid(True, axis="x", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(_AXIS[str(frame["method"].iloc[0])])
    axes.set_title(_title(frame), fontsize="medium", loc="left")
    say(figure, caution)
    return save(figure, out)


def say(figure: Figure, caution: str) -> None:
    """Writes a caution below a figure."""
    if caution:
        figure.supxlabel(caution, x=0.02, ha="left", fontsize="x-small", color="#a33b00")


def _title(frame: pd.DataFrame) -> str:
    attrs = frame.attrs
    at = "" if attrs["at_budget"] is None else f" at {attrs['at_budget']:,.0f} env steps"
    return (
        f"{attrs['sweep']}: importance for {metric_label(attrs['metric'])}{at}\n"
        f"{attrs['num_trials']} trials, R² {attrs['r2']:.2f}"
    )
