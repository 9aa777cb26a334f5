"""Partial dependence as a picture: a curve or bars of one setting, a map of two."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.importance_plot import say
from analysis.partial_dependence import partial_dependence_frame
from analysis.plots import metric_label, new_figure, save
from analysis.report.scales import Scale, label
from analysis.surrogate import Surrogate, fit_surrogate
from analysis.surrogate_data import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from analysis.records import Source

_COLOR = "#0b6bcb"


def plot_partial_dependence(
    results: Source | Surrogate,
    settings: str | Sequence[str],
    metric: str = "episode_return_mean",
    out: str | Path = "partial_dependence.png",
    *,
    mode: str = "max",
    at_budget: Budget = None,
) -> Path:
    """Draws what the forest expects of one setting, with the trials, or of two, as a map.

    Axes are on the scale that the setting was searched on. The band holds 80 % of the trees.

    Args:
        results: As of `partial_dependence_frame`.
        settings: One or two of the settings that vary.
        metric: The flat name of the metric.
        out: The file to write; its ending says the format (``.png``, ``.pdf``, ``.svg``).
        mode: ``"max"`` or ``"min"``.
        at_budget: As of `importance_frame`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `partial_dependence_frame`; or the file cannot be written.
    """
    learned = fit_surrogate(results, metric, mode, at_budget=at_budget)
    frame = partial_dependence_frame(learned, settings)
    names = frame.attrs["settings"]
    data = learned.data
    places = [data.settings.index(name) for name in names]
    scales = [data.scales[place] for place in places]
    caution = textwrap.fill(frame.attrs["caution"], 100)
    figure = new_figure(7.2, 4.4 + 0.18 * (caution.count("\n") + 1 if caution else 0))
    axes = figure.subplots()
    drawn = [_positions(scale, frame[name]) for scale, name in zip(scales, names, strict=True)]
    trials = [
        _positions(scale, data.raw.iloc[:, p]) for scale, p in zip(scales, places, strict=True)
    ]
    if len(names) == 1:
        _curve(axes, scales[0], drawn[0], frame, trials[0], data.values)
        axes.set_ylabel(metric_label(data.metric))
    else:
        _map(axes, drawn, frame, trials, data.mode, metric_label(data.metric))
        _ticks(axes, scales[1], drawn[1], "y")
        axes.set_ylabel(names[1])
    _ticks(axes, scales[0], drawn[0], "x")
    axes.set_xlabel(names[0])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        f"{data.sweep}: {data.trials} trials, R² {learned.r2:.2f}",
        fontsize="medium",
        loc="left",
    )
    say(figure, caution)
    return save(figure, out)


def _positions(scale: Scale, values: pd.Series) -> np.ndarray:
    """Where values are drawn; a number that is absent goes below the least one."""
    found = scale.positions(values)
    missing = ~np.isfinite(found)
    if missing.any() and not missing.all():
        reach = float(np.ptp(found[~missing])) or 1.0
        found = np.where(missing, found[~missing].min() - 0.12 * reach, found)
    return found


def _curve(
    axes: Axes,
    scale: Scale,
    drawn: np.ndarray,
    frame: pd.DataFrame,
    trials: np.ndarray,
    values: np.ndarray,
) -> None:
    axes.plot(trials, values, "o", ms=4, color="0.72", label="trials", zorder=1)
    present = np.array(frame[frame.columns[0]].notna() & (scale.kind != "category"))
    points = frame[~present]
    spread = np.abs(points[["low", "high"]].to_numpy().T - points["mean"].to_numpy())
    if len(points):
        axes.errorbar(
            drawn[~present], points["mean"], spread, fmt="o", ms=8, color=_COLOR, lw=2.2, zorder=3
        )
    if present.any():
        part = frame[present]
        axes.fill_between(
            drawn[present],
            part["low"],
            part["high"],
            color=_COLOR,
            alpha=0.18,
            lw=0,
            label="80 % of the trees",
            zorder=2,
        )
        axes.plot(drawn[present], part["mean"], color=_COLOR, lw=2.4, label="expected", zorder=3)
    if scale.kind == "category":
        axes.margins(x=0.2)
    axes.grid(True, axis="y", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize="small")


def _map(
    axes: Axes,
    drawn: list[np.ndarray],
    frame: pd.DataFrame,
    trials: list[np.ndarray],
    mode: str,
    metric: str,
) -> None:
    across, up = (np.unique(positions) for positions in drawn)
    table = np.full((len(up), len(across)), np.nan)
    table[np.searchsorted(up, drawn[1]), np.searchsorted(across, drawn[0])] = frame["mean"]
    colors = "viridis" if mode == "max" else "viridis_r"
    mesh = axes.pcolormesh(across, up, table, cmap=colors, shading="nearest", rasterized=True)
    axes.plot(*trials, "o", ms=4, mfc="none", mec="white", mew=1.2)
    axes.figure.colorbar(mesh, ax=axes, label=f"{metric}, expected")


def _ticks(axes: Axes, scale: Scale, drawn: np.ndarray, which: str) -> None:
    places: list[Any]
    places, labels = scale.ticks(float(drawn.min()), float(drawn.max()))
    if scale.kind != "category" and drawn.min() < places[0] and _has_absent(drawn):
        places, labels = [float(drawn.min()), *places], ["absent", *labels]
    elif scale.kind == "category":
        labels = ["absent" if text == label(None) else text for text in labels]
    axes.set(**{f"{which}ticks": places, f"{which}ticklabels": labels})


def _has_absent(drawn: np.ndarray) -> bool:
    """Whether the first position stands apart from an even grid."""
    steps = np.diff(np.unique(drawn))
    return len(steps) > 1 and steps[0] > 1.5 * steps[1]
