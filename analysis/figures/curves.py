"""Learning curves: every trial thin, the best one and the median bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from analysis.curves.thinning import (
    Curve,
    curve_quantiles,
    has_full_budget,
    median_curve,
    thin,
)
from analysis.figures import theme
from analysis.figures.common import (
    base_figure,
    budget_axis,
    end_labels,
    hover_lines,
    joined,
    padded,
    plural,
    small,
    value_axis,
)
from analysis.names import ENV_STEPS, SECONDS, finite
from analysis.results.records import TrialRecord
from analysis.results.rows import flatten
from analysis.statistics import interval_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 400
_RIGHT = 58
_NAMED = 20
"""So many of the best trials have a curve of their own, with hover text."""
_ALL = 60
"""Up to so many trials each one is drawn; of more the others are a band of quantiles."""
_BANDS = ((0.05, 0.95, 0.14), (0.25, 0.75, 0.22))
"""Quantiles and opacity of the bands of the others."""


@dataclass(frozen=True)
class Line:
    """A trial's curve.

    Attributes:
        trial_id: Tune's id.
        x: Budget, `[points]`.
        y: Values, `[points]`.
        low: Lower end of the interval of its seeds on `x`, if it has several.
        high: Upper end.
        settings: The settings that the hover text names.
        full: Whether the trial had the full budget, or it is not known.
    """

    trial_id: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    full: bool = True


def curves_by_steps(data: ReportData) -> go.Figure | str | None:
    """Draw the learning curves over steps, or iterations where these are unknown."""
    return _curves(data, data.steps_axis)


def curves_by_time(data: ReportData) -> go.Figure | str | None:
    """Return the learning curves over training time."""
    return _curves(data, SECONDS) if SECONDS in data.axes else None


def _curves(data: ReportData, x: str) -> go.Figure | str | None:
    trials = [trial for trial, score in data.ranked if score.found]
    lines = [line_of(trial, data.metric, x, data.settings) for trial in trials]
    budget = data.steps if data.steps in data.axes else x
    reached = [finite(trial.frame.get(budget)).max() for trial in trials]
    full = has_full_budget(reached)
    lines = [replace(line, full=is_full) for line, is_full in zip(lines, full, strict=True)]
    return draw_curves(lines, data.metric, x, seeds=len(data.seeds))


def line_of(trial: TrialRecord, metric: str, x: str, settings: Sequence[str] = ()) -> Line:
    """Return a trial's curve: where budget and metric are finite, in the order of rows."""
    steps, values = finite(trial.frame.get(x)), finite(trial.frame.get(metric))
    rows = values.index.intersection(steps.index)
    flat = flatten(trial.config)
    chosen = {name: flat[name] for name in settings if name in flat}
    ends = [finite(trial.frame.get(f"seeds/{metric}/{end}")) for end in ("low", "high")]
    band: list[np.ndarray | None] = [None, None]
    if all(end.index.isin(rows).any() for end in ends):
        for number, end in enumerate(ends):
            whole = values[rows].copy()  # where a row has no interval it has no width
            whole.update(end)
            band[number] = whole.to_numpy()
    # A clone of PBT goes on with its donor's clock, which may have run less.
    x_values = np.maximum.accumulate(steps[rows].to_numpy())
    y_values = values[rows].to_numpy()
    return Line(trial.trial_id, x_values, y_values, band[0], band[1], chosen)


def draw_curves(
    lines: Sequence[Line], metric: str, x: str = ENV_STEPS, *, seeds: int = 0
) -> go.Figure | str:
    """Draw learning curves; of many trials only the best ones, and a band of all others.

    Curves are thinned such that no peak is lost.

    Args:
        lines: Best first.
        metric: What is on the y axis.
        x: What the budget is: its name as a column.
        seeds: How many seeds each trial has, 0 where it is a single run.

    Returns:
        The figure, or why there is none.
    """
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return f"No trial reported a finite value of {metric}."
    greatest = max(float(line.x[-1]) for line in lines)
    divisor, axis = budget_axis(x, greatest)
    # Said, as plotly would make room in it for the names at the right ends.
    axis["range"] = [0.0, greatest / divisor * 1.01]
    curves = [(line.x / divisor, line.y) for line in lines]
    many = len(lines) > _ALL
    figure = base_figure(_HEIGHT, alt=_alt(lines, metric), caption=_caption(lines, many, seeds))
    figure.update_layout(margin_r=_RIGHT, xaxis=axis, yaxis=value_axis(metric))
    if many:
        _add_bands(figure, curves[_NAMED:])
    elif len(lines) > _NAMED + 1:
        others = [thin(x, y, 60) for x, y in curves[_NAMED + 1 :]]
        figure.add_scatter(
            x=joined(others)[0], y=joined(others)[1], mode=_mode(others), hoverinfo="skip",
            line={"color": theme.rgba(theme.GREY, 0.55), "width": 1}, marker={"size": 4},
            name="other trials",
        )  # fmt: skip
    last_named = _NAMED if many else _NAMED + 1
    for line, curve in reversed(list(zip(lines[1:last_named], curves[1:last_named], strict=True))):
        _add_line(figure, line, thin(curve[0], curve[1], 80), theme.rgba(theme.GREY, 0.75), 1.2)
    middle = median_curve(curves, [line.full for line in lines], points=120)
    if middle is not None:
        figure.add_scatter(
            x=small(middle[0]), y=small(middle[1]), mode="lines", name="median",
            line={"color": theme.ORANGE, "width": 2.2, "dash": "dash"},
            hovertemplate="<b>median of trials</b><br>%{y:.4~g}<extra></extra>",
        )  # fmt: skip
    _add_interval(figure, lines[0], divisor)
    best = thin(curves[0][0], curves[0][1], 200)
    _add_line(figure, lines[0], best, theme.BLUE, 2.8)
    _label_ends(figure, best, middle)
    return figure


def _add_line(figure: go.Figure, line: Line, curve: Curve, color: str, width: float) -> None:
    text = hover_lines(line.trial_id, None, line.settings)
    figure.add_scatter(
        x=small(curve[0]), y=small(curve[1]), mode=_mode([curve]), name=theme.plain(line.trial_id),
        line={"color": color, "width": width}, marker={"size": 5, "color": color},
        hovertemplate=text.replace("</b>", "</b>: %{y:.4~g} at %{x:.4~s}", 1) + "<extra></extra>",
    )  # fmt: skip


def _add_interval(figure: go.Figure, line: Line, divisor: float) -> None:
    if line.low is None or line.high is None:
        return
    low, high = (thin(line.x / divisor, end, 200) for end in (line.low, line.high))
    figure.add_scatter(
        x=small([*low[0], *high[0][::-1]]), y=small([*low[1], *high[1][::-1]]), fill="toself",
        fillcolor=theme.rgba(theme.BLUE, 0.2), line={"width": 0}, mode="lines", hoverinfo="skip",
        name="interval of the best",
    )  # fmt: skip


def _add_bands(figure: go.Figure, others: Sequence[Curve]) -> None:
    for lower, upper, alpha in _BANDS:
        found = curve_quantiles(others, [lower, upper], points=120)
        if found is None:
            continue
        grid, (low, high) = found
        figure.add_scatter(
            x=small([*grid, *grid[::-1]]), y=small([*low, *high[::-1]]), fill="toself",
            fillcolor=theme.rgba(theme.GREY, alpha), line={"width": 0}, mode="lines",
            hoverinfo="skip", name=f"{lower:.0%} to {upper:.0%} of the others",
        )  # fmt: skip


def _label_ends(figure: go.Figure, best: Curve, middle: Curve | None) -> None:
    ends = [(float(best[0][-1]), float(best[1][-1]), "best")]
    if middle is not None:
        ends.append((float(middle[0][-1]), float(middle[1][-1]), "median"))
    drawn = np.concatenate([np.asarray(trace.y, float) for trace in figure.data])
    low, high = padded(drawn)
    figure.update_yaxes(range=[low, high])
    end_labels(figure, ends, _HEIGHT - 70, low, high)


def _mode(curves: Sequence[Curve]) -> str:
    """Return lines, and a marker for a single point, which would not be seen without."""
    return "lines+markers" if any(len(x) == 1 for x, _ in curves) else "lines"


def _alt(lines: Sequence[Line], metric: str) -> str:
    best = lines[0]
    return (
        f"Learning curves of {plural(len(lines), 'trial')}: {metric} over the budget. The best "
        f"one, {best.trial_id}, ends at {best.y[-1]:.4g}."
    )


def _caption(lines: Sequence[Line], many: bool, seeds: int) -> str:
    parts = [f"Blue: the best trial, {lines[0].trial_id}."]
    if len(lines) > 2:
        parts.append(
            "Dashed: the median of the trials that reached this budget, until the first one ended."
        )
    if lines[0].low is not None:
        parts.append(f"Shaded blue: the {interval_label(seeds)} of the best trial.")
    if seeds > 1:
        parts.append("Each curve is the interquartile mean over its seeds.")
    if many:
        parts.append(
            f"Grey lines: the {_NAMED - 1} next best of {len(lines):,} trials; grey areas: the "
            f"middle 50 % and 90 % of the other {len(lines) - _NAMED:,} where three or more run."
        )
    elif len(lines) > 1:
        parts.append("Grey: the other trials.")
    return " ".join(parts)
