"""Contours: what the value is expected to be for two settings at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import (
    base_figure,
    chosen_settings,
    hover_lines,
    setting_axis,
    small,
)
from analysis.importance.scales import Scale, number, scales_of
from analysis.names import metric_label, setting_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 400
_PAIRS = 3
_MOVED = " Those of one value lie beside each other at random, so that all are seen."
_MOST = 150
_BAR_TITLE = 20
"""Characters of a line."""


def contours(data: ReportData) -> list[go.Figure] | str | None:
    """Draw a map of each of the strongest pairs of settings, or of the two most important ones."""
    if len(chosen_settings(data)) < 2:
        return None
    if isinstance(data.importance, str):
        return data.importance
    figures, reason = [], ""
    for pair in _pairs(data):
        found = data.partial_dependence(pair)
        if isinstance(found, str):
            reason = found
            continue
        scales = scales_of(data.values, pair, data.spec.get("search_space"))
        values, at = data.values_of(found)
        figures.append(draw_contour(values, pair, scales, data.metric, found, at=at))
    return figures or reason or "No pair of settings has a known interaction."


def _pairs(data: ReportData) -> list[tuple[str, str]]:
    top = chosen_settings(data)
    if isinstance(data.interactions, str) or data.interactions.empty:
        return [(top[0], top[1])] if len(top) > 1 else []
    frame = data.interactions
    pairs = [(str(a), str(b)) for a, b in zip(frame["setting"], frame["other"], strict=True)]
    # Settings that always changed together, `a + b`, have no axis.
    return [pair for pair in pairs if set(pair) <= set(top)][:_PAIRS]


def draw_contour(
    values: pd.DataFrame,
    pair: tuple[str, str],
    scales: Mapping[str, Scale],
    metric: str,
    dependence: pd.DataFrame,
    *,
    at: float | None = None,
) -> go.Figure:
    """Draw the partial dependence of the value on two settings, and the trials.

    Args:
        values: One row per trial, best first: `trial_id`, `value`, settings.
        pair: The settings across and up.
        scales: The scales of both.
        metric: What `value` is.
        dependence: A row per point of the grid: both settings and `mean`.
        at: The budget at which the values were taken; None for the last ones.
    """
    across, up = (scales[name] for name in pair)
    figure = base_figure(
        _HEIGHT,
        alt=f"Expected {metric} over {pair[0]} (across) and {pair[1]} (up), with the trials.",
        caption="Colour: the partial dependence on both. Points: the trials; star: the best one."
        + (_MOVED if "category" in (scales[pair[0]].kind, scales[pair[1]].kind) else ""),
        title=" × ".join(map(setting_label, pair)),
    )
    x, y, z = _grid(dependence, pair, across, up)
    smooth = across.kind != "category" and up.kind != "category"
    bar = {
        "orientation": "h", "thickness": 10, "len": 1.0, "y": -0.3, "yanchor": "top",
        "title": {"text": _bar_title(metric, at), "side": "bottom"}, "nticks": 4,
        "exponentformat": "SI", "outlinewidth": 0,
    }  # fmt: skip
    shared = {
        "x": small(x), "y": small(y), "z": z.astype(np.float32), "colorscale": theme.SEQUENTIAL,
        "colorbar": bar, "hovertemplate": f"{theme.short(metric, 40)} %{{z:.4~g}}<extra></extra>",
    }  # fmt: skip
    # The positions of a logarithmic scale: plotly draws contours between equal steps of these.
    figure.add_trace(go.Contour(line={"width": 0.5}, **shared) if smooth else go.Heatmap(**shared))
    _add_trials(figure, values, pair, across, up)
    for scale, axis, name, places in (
        (across, "xaxis", pair[0], x),
        (up, "yaxis", pair[1], y),
    ):
        # Trials at the ends of what was searched lie beyond the grid; half a star would be cut off.
        everything = np.concatenate([places, scale.positions(values[name])])
        inside = setting_axis(scale, everything, name, room=0.04)
        if scale.kind == "log":
            inside.update(type="linear", tickvals=list(np.log10(inside["tickvals"])))
        figure.update_layout({axis: {**inside, "showgrid": False, "zeroline": False}})
    return figure


def _bar_title(metric: str, at: float | None) -> str:
    """Return the colour bar's title: what is beside long names of levels is narrow."""
    title = theme.folded(metric_label(metric), _BAR_TITLE)
    return title if at is None else f"{title}<br>at {number(at, 3)} steps"


def _grid(
    dependence: pd.DataFrame, pair: tuple[str, str], across: Scale, up: Scale
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions across `[a]` and up `[b]`, and the means `[b, a]`; NaN where none is."""
    table = pd.DataFrame(
        {
            "x": across.positions(dependence[pair[0]]),
            "y": up.positions(dependence[pair[1]]),
            "z": dependence["mean"].to_numpy(float),
        }
    ).dropna(subset=["x", "y"])
    grid = table.pivot_table(index="y", columns="x", values="z").sort_index().sort_index(axis=1)
    return grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(float)


def _add_trials(
    figure: go.Figure, values: pd.DataFrame, pair: tuple[str, str], across: Scale, up: Scale
) -> None:
    shown = values.iloc[:: int(np.ceil(len(values) / _MOST))]
    random = np.random.default_rng(0)
    places = []
    for name, scale in zip(pair, (across, up), strict=True):
        positions = scale.positions(shown[name])
        if scale.kind == "category":
            positions = positions + random.uniform(-0.3, 0.3, len(positions))
        places.append(positions)
    texts = [
        hover_lines(str(row["trial_id"]), float(row["value"]), {c: row[c] for c in pair})
        for row in shown.to_dict("records")
    ]
    # The map brings its own background, so the points may be white with a dark edge.
    for label, rows, symbol, size in (
        ("trials", slice(1, None), "circle", 7),
        ("best", slice(0, 1), "star", 15),
    ):
        figure.add_scatter(
            x=small(places[0][rows]), y=small(places[1][rows]), mode="markers", text=texts[rows],
            name=label, hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbol, "size": size, "color": "#ffffff",
                    "line": {"color": "#1d2127", "width": 1.2}},
        )  # fmt: skip
