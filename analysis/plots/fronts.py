"""Fronts, drawn: what cannot be bettered in one objective without loss in another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.names import metric_label
from analysis.plots.curves import dress, new_figure, save
from analysis.ranking.cost_return import cost_front
from analysis.ranking.fronts import pareto_front
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from ray.tune import ResultGrid

    from analysis.results.records import Source

Objectives = Sequence[tuple[str, str]]
"""Metric and mode ("max" or "min") of each objective."""


def plot_pareto(
    results: ResultGrid | Sweep | str | Path, objectives: Objectives, out: str | Path = "pareto.png"
) -> Path:
    """Draw the trials by two objectives, with the front and what it dominates.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        objectives: Metric and mode of the two.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `pareto_front`; or there are not two objectives, or no trial with both.
    """
    if len(objectives) != 2:
        raise ResultsError(f"only two objectives can be drawn, not {len(objectives)}")
    frame = pareto_front(results, objectives, whole=True)
    if frame.empty:
        raise ResultsError(f"{frame.attrs['sweep']}: no trial ended with finite objectives")
    title = f"{frame.attrs['sweep']}: {len(frame)} trials"
    return save(draw_front(frame, objectives, title), out)


def plot_cost_front(
    results: Source | Sequence[Source],
    metric: str = "episode_return_mean",
    mode: str = "max",
    out: str | Path = "cost.png",
    *,
    cost: str = "env_steps",
) -> Path:
    """Draw the trials by cost and metric, with the front.

    Args:
        results: See `cost_front`.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        cost: One of `COSTS`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `cost_front`; or the file cannot be written.
    """
    frame = cost_front(results, metric, mode, cost=cost, whole=True)
    if "sweep" in frame:
        frame["trial_id"] = frame["sweep"] + "/" + frame["trial_id"]
    return save(draw_front(frame, [(cost, "min"), (metric, mode)], f"{len(frame)} trials"), out)


def draw_front(frame: pd.DataFrame, objectives: Objectives, title: str) -> Figure:
    """Return the figure of `plot_pareto`.

    Args:
        frame: `trial_id`, `optimal` and a column for each of the two objectives.
        objectives: Metric and mode of what is across and up.
        title: The heading of the figure.
    """
    import matplotlib.ticker as tickers

    (x, x_mode), (y, y_mode) = objectives
    front, rest = frame[frame["optimal"]], frame[~frame["optimal"]]
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    axes.scatter(rest[x], rest[y], s=26, color="0.72", label=f"dominated ({len(rest)})", zorder=2)
    points = front.sort_values(x)
    # The edge of what the front dominates: at each x the best y among trials at least as good in x.
    where: Any = "pre" if x_mode == "max" else "post"
    axes.step(points[x], points[y], where=where, color="#0b6bcb", lw=1.2, alpha=0.6, zorder=1)
    axes.scatter(
        front[x], front[y], s=44, color="#0b6bcb", label=f"Pareto-optimal ({len(front)})", zorder=3
    )
    _name_points(axes, points[::-1] if y_mode == "max" else points, x, y)
    axes.set_xlabel(f"{metric_label(x)} ({_better(x_mode)})")
    axes.set_ylabel(f"{metric_label(y)} ({_better(y_mode)})")
    axes.set_title(title, fontsize="medium", loc="left")
    if frame[x].max() >= 10_000:
        axes.xaxis.set_major_formatter(tickers.EngFormatter(sep=""))
    dress(axes)
    axes.legend(frameon=False, loc="best", fontsize="small")
    return figure


def _name_points(axes: Axes, points: pd.DataFrame, x: str, y: str) -> None:
    """Write the trials beside their points, from the first on; where there is no room, nothing."""
    axes.autoscale_view()
    written: list[np.ndarray] = []
    for row in points.to_dict("records"):
        place = axes.transLimits.transform((row[x], row[y]))  # in parts of the axes
        if any((np.abs(place - other) < (0.25, 0.045)).all() for other in written):
            continue
        written.append(place)
        axes.annotate(
            str(row["trial_id"]), (row[x], row[y]), (5, 5), textcoords="offset points",
            fontsize="x-small", color="0.35",
        )  # fmt: skip


def _better(mode: str) -> str:
    return "higher is better" if mode == "max" else "lower is better"
