"""Parallel coordinates: which combinations of settings led to which value.

The axes lie across, one below the other, so that names and ticks are read on a phone as on a wide
screen, and so that the picture prints: plotly's own trace of that kind needs WebGL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import base_figure, chosen_settings, hover_lines, plural, small
from analysis.importance.scales import Scale, number, scales_of
from analysis.names import metric_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_ROW = 74
"""Pixels from one axis to the next."""
_MOST_AXES = 10
_MOST_TRIALS = 100
"""Lines beyond cover each other: then the best ones and a sample of the rest are drawn."""
_BEST = 30
_WIDTHS = (3.0, 1.3)
_LEVEL_WIDTH = 0.5
"""Share of the room between two levels over which the lines through one are spread."""


def parallel_coordinates(data: ReportData) -> go.Figure | str | None:
    """Return all varied settings and the value of each trial."""
    names = chosen_settings(data)
    scales = scales_of(data.values, names, data.spec.get("search_space"))
    return draw_parallel(data.values, scales, data.metric, data.mode)


def draw_parallel(
    values: pd.DataFrame, scales: Mapping[str, Scale], metric: str, mode: str
) -> go.Figure | str | None:
    """Draw a line per trial through its settings and down to its value, coloured by it.

    Args:
        values: One row per trial, best first: `trial_id`, `value`, and a column per setting.
        scales: The scales of the settings, in the order of the axes.
        metric: What `value` is.
        mode: `"max"` or `"min"`: the best have the last colour of `theme.LINES` in either.

    Returns:
        The figure; None if no setting varies; or why there is none.
    """
    names = list(scales)[:_MOST_AXES]
    if not names:
        return None
    if len(values) < 2:
        return "Parallel coordinates need two trials with a value."
    shown = _sample(values)
    places = {name: _places(scales[name], shown[name]) for name in names}
    numbers = values["value"].to_numpy(float)
    low, high = float(numbers.min()), float(numbers.max())
    rows = np.column_stack(
        [*(places[n][0] for n in names), _within(shown["value"].to_numpy(float), low, high)]
    )
    figure = base_figure(
        round(_ROW * (len(names) + 0.75)) + 24,
        alt=f"A line per trial through its {plural(len(names), 'setting')} down to {metric}.",
        caption=_caption(values, shown, len(scales)),
    )
    _add_trials(figure, shown, names, rows, mode, (low, high))
    for row, name in enumerate(names):
        ends = places[name][1]
        marks, texts = scales[name].ticks(*ends, 4)
        _add_axis(figure, -row, name, _within(np.array(marks), *ends), texts)
    marks, texts = Scale("linear").ticks(low, high, 4)
    _add_axis(figure, -len(names), metric_label(metric), _within(np.array(marks), low, high), texts)
    figure.update_xaxes(range=[-0.06, 1.06], visible=False, fixedrange=True)
    figure.update_yaxes(range=[-len(names) - 0.4, 0.35], visible=False, fixedrange=True)
    return figure


def _sample(values: pd.DataFrame) -> pd.DataFrame:
    if len(values) <= _MOST_TRIALS:
        return values
    rest = np.linspace(_BEST, len(values) - 1, _MOST_TRIALS - _BEST).round().astype(int)
    return values.iloc[[*range(_BEST), *rest]]


def _places(scale: Scale, column: pd.Series) -> tuple[np.ndarray, tuple[float, float]]:
    """Return where the trials are on an axis from 0 to 1, and which positions its ends are."""
    positions = scale.positions(column)
    if scale.kind == "category":
        ends = (-0.5, max(len(scale.levels), 1) - 0.5)
        for level in range(len(scale.levels)):
            # The trials of a level lie side by side, the best ones left.
            members = np.flatnonzero(positions == level)
            shifts = np.linspace(-0.5, 0.5, len(members)) if len(members) > 1 else [0.0]
            positions[members] += _LEVEL_WIDTH * np.asarray(shifts)
        return _within(positions, *ends), ends
    known = positions[np.isfinite(positions)]
    ends = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return _within(positions, *ends), ends


def _within(positions: np.ndarray, low: float, high: float) -> np.ndarray:
    return (positions - low) / (high - low) if high > low else np.full(len(positions), 0.5)


def _add_trials(
    figure: go.Figure,
    shown: pd.DataFrame,
    names: Sequence[str],
    rows: np.ndarray,
    mode: str,
    ends: tuple[float, float],
) -> None:
    """Draw a line per trial, the best one on top of the others; a missing setting is a gap."""
    heights = -np.arange(rows.shape[1], dtype=float)
    worth = _within(shown["value"].to_numpy(float), *ends)
    worth = 1 - worth if mode == "min" else worth
    records: list[dict[Any, Any]] = shown.to_dict("records")
    alpha = 0.85 if len(shown) <= 40 else 0.45
    for order in reversed(range(len(records))):
        record = records[order]
        settings = {name: record[name] for name in names}
        figure.add_scatter(
            x=small(rows[order]), y=small(heights), mode="lines", connectgaps=True,
            line={"color": line_color(float(worth[order]), 1.0 if order == 0 else alpha),
                  "width": _WIDTHS[0] if order == 0 else _WIDTHS[1]},
            name=theme.plain(record["trial_id"]),
            hovertemplate=hover_lines(record["trial_id"], record["value"], settings)
            + "<extra></extra>",
        )  # fmt: skip


def line_color(worth: float, alpha: float = 1.0) -> str:
    """Return the colour of a worth from 0 (worst) to 1 (best) on `theme.LINES`."""
    stops = [place for place, _ in theme.LINES]
    parts = [[int(color[start : start + 2], 16) for start in (1, 3, 5)] for _, color in theme.LINES]
    red, green, blue = (
        round(float(np.interp(worth, stops, [part[c] for part in parts]))) for c in range(3)
    )
    return f"rgba({red},{green},{blue},{alpha:g})"


def _add_axis(figure: go.Figure, y: float, name: str, at: np.ndarray, texts: Sequence[str]) -> None:
    """Draw a line across, its name above at the left, and ticks below."""
    gray = theme.rgba(theme.GREY, 0.9)
    figure.add_shape(type="line", x0=0, x1=1, y0=y, y1=y, line={"color": gray, "width": 1.5})
    figure.add_annotation(
        x=0, xref="paper", xanchor="left", y=y, yshift=14, showarrow=False,
        text=f"<b>{theme.short(name, 40)}</b>",
    )  # fmt: skip
    for place, text in zip(at, texts, strict=True):
        figure.add_shape(
            type="line", x0=float(place), x1=float(place), y0=y - 0.05, y1=y + 0.05,
            line={"color": gray, "width": 1.5},
        )  # fmt: skip
        figure.add_annotation(
            x=float(place), y=y, yshift=-13, showarrow=False, text=theme.short(text, 14)
        )


def _caption(values: pd.DataFrame, shown: pd.DataFrame, settings: int) -> str:
    first, last = values["value"].iloc[0], values["value"].iloc[-1]
    parts = [
        f"A line per trial, from grey (the worst, {number(last)}) over blue to orange (the best, "
        f"{number(first)}); the bold one is the best."
    ]
    if len(shown) < len(values):
        parts.append(
            f"Of {len(values):,} trials the best {_BEST} and a sample of "
            f"{len(shown) - _BEST} others, evenly over the ranks."
        )
    if settings > _MOST_AXES:
        parts.append(f"The {_MOST_AXES} most important of {settings} settings.")
    return " ".join(parts)
