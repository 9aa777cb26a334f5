"""What a return costs: the trials by two objectives, with the front of those none dominates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import (
    LEGEND,
    base_figure,
    budget_axis,
    hover_lines,
    padded,
    plural,
    small,
    value_axis,
)
from analysis.importance.scales import label, number
from analysis.names import SECONDS, metric_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 400
_WIDE = 30.0
_MOST = 600


def cost_front(data: ReportData) -> go.Figure | str | None:
    """Draw the objectives against each other, or a single one against the time it took."""
    if data.pareto is None:
        return None
    objectives = list(data.pareto.attrs["objectives"])
    if objectives[1][0] == SECONDS or len(data.objectives) == 1:
        objectives = [objectives[1], objectives[0]]  # the cost across
    return draw_front(data.pareto, objectives[:2])


def draw_front(frame: pd.DataFrame, objectives: Sequence[tuple[str, str]]) -> go.Figure | str:
    """Draw the trials, and the edge of what the optimal ones dominate.

    Args:
        frame: `trial_id`, `optimal`, a column per metric, as
            `analysis.ranking.fronts.pareto_front` gives it with `whole=True`.
        objectives: Metric and mode of what is across and up.
    """
    (x, x_mode), (y, _) = objectives
    if frame.empty:
        return "No trial ended with finite objectives."
    points = frame[frame["optimal"]].sort_values(x)
    rest = frame[~frame["optimal"]]
    figure = base_figure(
        _HEIGHT,
        alt=f"{plural(len(frame), 'trial')} by {x} and {y}; {len(points)} of them optimal.",
        caption=_caption(points, objectives),
    )
    factor, x_axis = 1.0, value_axis(x)
    if x == SECONDS:
        factor, x_axis = budget_axis(x, float(frame[x].max()))
    names = [str(name) for name in frame.columns if str(name).startswith("config/")]
    _add(figure, rest.iloc[:: int(np.ceil(max(len(rest), 1) / _MOST))], x, y, factor, names, False)
    # At each x the best y among the trials that are at least as good in x.
    shape = "vh" if x_mode == "max" else "hv"
    figure.add_scatter(
        x=small(points[x] / factor), y=small(points[y]), mode="lines", hoverinfo="skip",
        line={"color": theme.rgba(theme.BLUE, 0.7), "width": 1.5, "shape": shape}, name="front",
        showlegend=False,
    )  # fmt: skip
    _add(figure, points, x, y, factor, names, True)
    across = frame[x].to_numpy(float) / factor
    wide = bool((across > 0).all()) and across.max() > _WIDE * across.min()
    low, high = padded(np.log10(across) if wide else across)
    x_axis.update(type="log" if wide else "linear", range=[low, high])
    figure.update_layout(
        xaxis={**x_axis, "title": {"text": _title(x_axis, x_mode)}, "zeroline": False},
        yaxis={**value_axis(y), "range": padded(frame[y].to_numpy(float), 0.08), "zeroline": False},
        **LEGEND,
    )
    return figure


def _add(
    figure: go.Figure,
    rows: pd.DataFrame,
    x: str,
    y: str,
    factor: float,
    names: Sequence[str],
    optimal: bool,
) -> None:
    if rows.empty:
        return
    marker: dict[str, Any] = {"symbol": "circle-open", "size": 7, "color": theme.GREY}
    if optimal:
        marker = {"symbol": "star", "size": 13, "color": theme.BLUE}
    texts = []
    for row in rows.to_dict("records"):
        settings = {n.removeprefix("config/"): row[n] for n in names} if optimal else {}
        values = f"{theme.short(metric_label(x))} {number(row[x])}"
        values += f"<br>{theme.short(metric_label(y))} {number(row[y])}"
        trial, *lines = hover_lines(str(row["trial_id"]), None, settings).split("<br>")
        texts.append("<br>".join([trial, values, *lines]))
    figure.add_scatter(
        x=small(rows[x] / factor), y=small(rows[y]), mode="markers", marker=marker, text=texts,
        name=f"{'optimal' if optimal else 'dominated'} ({len(rows)})",
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _title(axis: dict[str, Any], mode: str) -> str:
    return f"{axis['title']['text']}, {'higher' if mode == 'max' else 'lower'} is better"


def _caption(points: pd.DataFrame, objectives: Sequence[tuple[str, str]]) -> str:
    names = ", ".join(label(trial) for trial in points["trial_id"][:6])
    more = f" and {len(points) - 6} more" if len(points) > 6 else ""
    (x, x_mode), (y, y_mode) = objectives
    better = {"max": "more", "min": "less"}
    return (
        f"Stars: no other trial is as good in both ({better[x_mode]} {metric_label(x)}, "
        f"{better[y_mode]} {metric_label(y)}) and better in one: {names}{more}."
    )
