"""Estimates with their intervals, one row each: of seeds, of held-out runs, of algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import LEGEND, base_figure, padded, small
from analysis.importance.scales import number

_ROW = 52
_MOST = 20
_NAME = 36
"""Characters of a name, above its row beside the numbers: so many fit on a phone."""


@dataclass(frozen=True)
class Estimate:
    """One row.

    Attributes:
        name: The name of what is estimated; of a long one the middle is left out.
        value: The estimate; NaN draws nothing but the points.
        low: Lower end of its interval; NaN where there is none.
        high: Upper end.
        points: The single values that it is made of.
        other: Another estimate of the same, drawn beside it.
        best: Whether the row stands out.
        detail: What the hover text says in place of the name.
        color: Its colour, by default blue for the best and orange for the others.
    """

    name: str
    value: float
    low: float = float("nan")
    high: float = float("nan")
    points: np.ndarray = field(default_factory=lambda: np.empty(0))
    other: float | None = None
    best: bool = False
    detail: str = ""
    color: str = ""

    @property
    def drawn_color(self) -> str:
        """Its colour."""
        return self.color or (theme.BLUE if self.best else theme.ORANGE)


def draw_estimates(
    estimates: Sequence[Estimate],
    axis: str,
    *,
    value_name: str,
    points_name: str = "single runs",
    other_name: str = "",
    alt: str,
    caption: str = "",
    title: str = "",
) -> go.Figure:
    """Draw rows with the name above each, where it is never cut off.

    Args:
        estimates: The first one on top; so many as fit a page are drawn.
        axis: What the values are.
        value_name: What the estimates are, for the legend.
        points_name: What the single values are.
        other_name: What the other estimates are.
        alt: See `base_figure`.
        caption: See `base_figure`.
        title: See `base_figure`.
    """
    shown = list(estimates[:_MOST])
    if len(shown) < len(estimates):
        caption = f"{caption} The first {len(shown)} of {len(estimates)}.".strip()
    figure = base_figure(_ROW * len(shown) + 110, alt=alt, caption=caption, title=title)
    rows = -np.arange(len(shown), dtype=float)
    points = [(row, point) for row, e in zip(rows, shown, strict=True) for point in e.points]
    if points:
        figure.add_scatter(
            x=small(point for _, point in points), y=small(row for row, _ in points),
            mode="markers", name=points_name,
            marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": theme.GREY}},
            hovertemplate="%{x:.4~g}<extra></extra>",
        )  # fmt: skip
    # The best one's mark is the legend's.
    order = sorted(zip(rows, shown, strict=True), key=lambda item: not item[1].best)
    colors = list(dict.fromkeys(estimate.drawn_color for _, estimate in order))
    for color in colors:
        chosen = [(row, e) for row, e in order if e.drawn_color == color]
        _add_values(figure, chosen, color, value_name, show=color == colors[0])
    others = [(row, e.other) for row, e in zip(rows, shown, strict=True) if e.other is not None]
    if others:
        figure.add_scatter(
            x=small(other for _, other in others), y=small(row for row, _ in others),
            mode="markers", name=other_name,
            marker={"symbol": "diamond-open", "size": 11, "color": theme.PURPLE,
                    "line": {"width": 2}},
            hovertemplate=f"{theme.plain(other_name)} %{{x:.4~g}}<extra></extra>",
        )  # fmt: skip
    for row, estimate in zip(rows, shown, strict=True):
        name = theme.short(estimate.name, _NAME)
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=float(row), yshift=20, showarrow=False,
            text=f"<b>{name}</b>" if estimate.best else name,
        )  # fmt: skip
        figure.add_annotation(
            x=1, xref="paper", xanchor="right", y=float(row), yshift=20, showarrow=False,
            text=_words(estimate),
        )  # fmt: skip
    drawn = [
        [e.value, e.low, e.high, *e.points, np.nan if e.other is None else e.other] for e in shown
    ]
    low, high = padded(np.array([value for part in drawn for value in part], float))
    figure.update_layout(
        xaxis={"title": {"text": theme.short(axis, 44)}, "range": [low, high], "nticks": 6,
               "exponentformat": "SI", "minexponent": 4, "zeroline": False},
        yaxis={"visible": False, "range": [-len(shown) + 0.65, 0.65]},
        **LEGEND,
    )  # fmt: skip
    return figure


def _add_values(
    figure: go.Figure,
    chosen: Sequence[tuple[float, Estimate]],
    color: str,
    name: str,
    *,
    show: bool,
) -> None:
    values = np.array([e.value for _, e in chosen])
    low = np.array([e.low for _, e in chosen])
    high = np.array([e.high for _, e in chosen])
    figure.add_scatter(
        x=small(values), y=small(row for row, _ in chosen), mode="markers", name=name,
        showlegend=show, marker={"symbol": "diamond", "size": 11, "color": color},
        error_x={"type": "data", "symmetric": False, "color": color, "thickness": 2.5, "width": 6,
                 "array": small(np.nan_to_num(high - values)),
                 "arrayminus": small(np.nan_to_num(values - low))},
        text=[f"<b>{theme.plain(e.detail or e.name)}</b><br>{_words(e)}" for _, e in chosen],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _words(estimate: Estimate) -> str:
    """Return `210 (197 to 227)`; a dash where nothing is known."""
    if not np.isfinite(estimate.value):
        return "–"
    text = number(estimate.value)
    if np.isfinite(estimate.low) and np.isfinite(estimate.high):
        text += f" ({number(estimate.low)} to {number(estimate.high)})"
    return text
