"""What the report's figures share: axes, labels, hover text, small arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.importance.scales import Scale, label, number
from analysis.names import SECONDS, metric_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

LEGEND: dict[str, Any] = {
    "showlegend": True,
    "legend": {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "yanchor": "bottom",
        "itemsizing": "constant",
    },
}
"""Above the figure, in as many rows as it needs."""
LABEL_HEIGHT = 17.0
"""Pixels that a line of text takes."""


_TITLE = 24
"""Characters of a line of an axis' title: beside the smallest figures there are no more."""
_TICK = 10
"""Characters of a line of a level: plotly leaves out a label that reaches beyond the figure."""


def chosen_settings(data: ReportData) -> list[str]:
    """Return the settings that vary, the most important ones first, without the seed.

    The seed is no setting that one chooses.
    """
    names = [*data.top_settings, *data.settings]
    return [name for name in dict.fromkeys(names) if name in data.values and name != "seed"]


def base_figure(height: int, *, alt: str, caption: str = "", title: str = "") -> go.Figure:
    """Return an empty figure that fits a phone: no title, small margins, touch scrolls the page.

    Args:
        height: Pixels.
        alt: What it shows, for those who cannot see it.
        caption: What a reader has to know of it.
        title: The page's heading, where it is one of several.
    """
    meta = {"alt": alt, "caption": caption, "title": title}
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 12, "r": 12, "t": 12, "b": 12},
        showlegend=False,
        dragmode=False,
        hovermode="closest",
        meta={key: value for key, value in meta.items() if value},
    )
    return figure


def small(values: Iterable[Any]) -> np.ndarray:
    """Return numbers as float32, which plotly writes in six characters each; NaN stays a gap."""
    return np.asarray(list(values), dtype=np.float32)


def joined(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return curves as one trace, with a gap (NaN) after each."""
    gap = np.array([np.nan])
    xs = [part for x, _ in curves for part in (x, gap)]
    ys = [part for _, y in curves for part in (y, gap)]
    empty = np.empty(0)
    return small(np.concatenate(xs or [empty])), small(np.concatenate(ys or [empty]))


def budget_axis(name: str, greatest: float) -> tuple[float, dict[str, Any]]:
    """Return what a budget is divided by, and its axis: `50k` steps; seconds, minutes or hours."""
    if name != SECONDS:
        title = {"text": budget_words(name)}
        return 1.0, {"title": title, "tickformat": "~s", "nticks": 7}
    unit, factor = ("s", 1.0)
    if greatest > 7200:
        unit, factor = "h", 3600.0
    elif greatest > 300:
        unit, factor = "min", 60.0
    return factor, {"title": {"text": f"training time ({unit})"}, "nticks": 7}


def budget_words(name: str) -> str:
    """Return what a budget counts: `environment steps`."""
    return theme.short(metric_label(name), 40)


def setting_axis(
    scale: Scale, positions: np.ndarray, name: str = "", *, ticks: int = 5, room: float = 0.05
) -> dict[str, Any]:
    """Return the axis of a setting that holds these positions, with the ticks of its scale."""
    if scale.kind == "category":
        low, high = -0.5, len(scale.levels) - 0.5
        inner = (low, high)
    else:
        known = positions[np.isfinite(positions)]
        inner = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        low, high = padded(np.array(inner), room)
    places, texts = scale.ticks(low, high, ticks)
    return {
        "type": "log" if scale.kind == "log" else "linear",
        "range": [low, high],
        "tickvals": [float(place) for place in scale.drawn(np.array(places))],
        "ticktext": [theme.folded(text, _TICK) for text in texts],
        "title": {"text": theme.folded(name, _TITLE)} if name else None,
    }


def value_axis(metric: str, at: float | None = None) -> dict[str, Any]:
    """Return the axis of an objective, perhaps at a budget; `k` and `M` from 10,000 on."""
    text = theme.folded(metric_label(metric), _TITLE)
    title = {"text": text if at is None else f"{text}<br>at {number(at, 3)} steps"}
    return {"title": title, "exponentformat": "SI", "minexponent": 4, "nticks": 7}


def hover_lines(trial: str, value: float | None, settings: Mapping[str, Any] | None = None) -> str:
    """Return hover text: the trial, its value, its settings, a line each."""
    lines = [f"<b>{theme.plain(trial)}</b>"]
    if value is not None:
        lines.append(f"value {number(value)}")
    for name, setting in (settings or {}).items():
        lines.append(f"{theme.short(name)} = {theme.short(label(setting), 40)}")
    return "<br>".join(lines)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights moved apart as little as needed for a gap between each two; the order stays.

    Args:
        heights: The wished places, in any order and unit.
        gap: What is left between neighbours, in the same unit.
    """
    order = np.argsort(heights, kind="stable")
    # Groups of touching labels are centred on the mean of where they would like to be.
    groups: list[list[float]] = []  # [sum of wished starts, count]
    for place in (float(heights[i]) for i in order):
        groups.append([place, 1.0])
        while len(groups) > 1:
            (a, n), (b, m) = groups[-2], groups[-1]
            top = a / n + (n - 1) * gap / 2
            bottom = b / m - (m - 1) * gap / 2
            if bottom - top >= gap:
                break
            groups[-2:] = [[a + b, n + m]]
    placed = [total / n + (k - (n - 1) / 2) * gap for total, n in groups for k in range(int(n))]
    result = np.empty(len(placed))
    result[order] = placed
    return [float(place) for place in result]


def end_labels(
    figure: go.Figure,
    ends: Sequence[tuple[float, float, str]],
    height: float,
    low: float,
    high: float,
) -> None:
    """Write names at the right ends of curves, moved apart where they would overlap.

    Args:
        figure: Its right margin has to hold the names.
        ends: x, y and name of each.
        height: The height of the plot area in pixels.
        low: The lower end of the y axis.
        high: The upper end of the y axis.
    """
    pixels = height / max(high - low, 1e-12)
    wished = [(y - low) * pixels for _, y, _ in ends]
    places = spread(wished, LABEL_HEIGHT)
    # None above the plot area, where it would be cut off: the upper ones push the others down.
    limit = height
    for highest in sorted(range(len(places)), key=lambda n: -places[n]):
        places[highest] = min(places[highest], limit)
        limit = places[highest] - LABEL_HEIGHT
    for (x, y, name), place, wish in zip(ends, places, wished, strict=True):
        figure.add_annotation(
            x=x, y=y, text=theme.plain(name), showarrow=False, xanchor="left", xshift=5,
            yshift=place - wish, align="left",
        )  # fmt: skip


def padded(values: np.ndarray, share: float = 0.05) -> tuple[float, float]:
    """Return the range of an axis: of the finite values, with some room."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high == low:
        return low - max(abs(low) * 0.05, 0.5), high + max(abs(low) * 0.05, 0.5)
    room = share * (high - low)
    return low - room, high + room


def plural(count: int, noun: str) -> str:
    """Return `1 trial`, `24 trials`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
