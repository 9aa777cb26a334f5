"""The effects of a sweep's settings as a picture: a dot and an interval per setting, ranked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.importance.effects import effects_frame, level_label
from analysis.names import metric_label
from analysis.plots.curves import dress, new_figure, save, shortened
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from ray.tune import ResultGrid

_CERTAIN = "#0b6bcb"
_UNCERTAIN = "0.6"


def plot_effects(
    results: ResultGrid | Sweep | str | Path | pd.DataFrame,
    metric: str = "episode_return_mean",
    out: str | Path = "effects.png",
    *,
    mode: str = "max",
) -> Path:
    """Draw how much better each setting's best level is than its worst one, with its interval.

    Effects whose interval excludes 0 are filled, the others are hollow and grey.

    Args:
        results: A `ResultGrid`, the path of a sweep folder, or what `effects_frame` returned
            (then `metric` and `mode` are the frame's).
        metric: The flat name of the metric.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        mode: `"max"` or `"min"`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: No setting has several levels with several trials, no trial reported
            `metric`, or the file cannot be written.
    """
    frame = results
    if not isinstance(frame, pd.DataFrame):
        frame = effects_frame(frame, metric, mode)
    sweep = frame.attrs["sweep"]
    if frame.empty:
        raise ResultsError(f"{sweep}: no setting has 2 to 8 levels with several trials each")
    settings = [levels for _, levels in frame.groupby("rank", sort=True)]
    figure = new_figure(8.0, 1.7 + 0.55 * len(settings))
    axes = figure.subplots()
    for place, levels in enumerate(settings):
        _draw(axes, place, levels)
    axes.axvline(0, color="0.25", lw=1.0, zorder=1)
    axes.set_ylim(len(settings) - 0.4, -0.6)  # the first rank on top
    names = [shortened(levels.iloc[0]["setting"]) for levels in settings]
    axes.set_yticks(range(len(settings)), names, va="bottom")
    axes.tick_params(axis="y", length=0)
    dress(axes, grid="x")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"best level less worst level: {metric_label(frame.attrs['metric'])}")
    axes.set_title(f"{sweep}: effect of each setting", fontsize="medium", loc="left", pad=18)
    axes.annotate(
        f"{100 * frame.attrs['confidence']:g} % intervals, all at once; "
        "filled where the interval excludes 0",
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize="x-small",
        color="0.35",
    )
    return save(figure, out)


def _draw(axes: Axes, place: int, levels: pd.DataFrame) -> None:
    first = levels.iloc[0]
    color = _CERTAIN if first["excludes_zero"] else _UNCERTAIN
    ends = [first["effect_low"], first["effect_high"]]
    axes.plot(ends, [place, place], color=color, lw=2.4, solid_capstyle="round", zorder=2)
    face = color if first["excludes_zero"] else "white"
    axes.plot(first["effect"], place, "o", ms=8, mfc=face, mec=color, mew=2.0, zorder=3)
    axes.annotate(
        f"{first['effect']:.3g}",
        (first["effect"], place),
        (0, 7),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize="small",
        color="0.2",
    )
    best, worst = (levels.iloc[row] for row in (0, -1))
    axes.annotate(
        f"{_level(best)} over {_level(worst)}",
        (0, place),
        (-4, -2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize="small",
        color="0.35",
    )


def _level(row: pd.Series) -> str:
    """Return a level and its mean: `true (376)`."""
    return f"{shortened(level_label(row['level']))} ({row['mean']:.4g})"
