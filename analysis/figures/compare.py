"""Several algorithms or sweeps side by side: curves, estimates, profiles, who is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import (
    LEGEND,
    base_figure,
    budget_axis,
    padded,
    plural,
    small,
    value_axis,
)
from analysis.figures.estimates import Estimate, draw_estimates
from analysis.importance.scales import number
from analysis.names import metric_label

_HEIGHT = 400
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_STATISTICS = {
    "iqm": "Interquartile mean",
    "mean": "Mean",
    "median": "Median",
    "optimality_gap": "Optimality gap (lower is better)",
}
_FEW = 5
"""Of more algorithms the cells of the matrix are percents."""
_WORDY = 3
"""Up to so many algorithms a cell of the matrix has room for its interval."""


def draw_compared_curves(
    curves: pd.DataFrame, metric: str, x: str | None, confidence: float = 0.95
) -> go.Figure | str:
    """Draw the interquartile mean of each algorithm over the shared budget, with its interval.

    Args:
        curves: `algorithm`, `share`, `budget`, `iqm`, `low`, `high`, as of
            `analysis.comparison.outcome.Comparison`.
        metric: On the y axis.
        x: What the budget is counted in; None where the tasks have different budgets: then the
            share of each task's is across.
        confidence: Of the intervals.
    """
    column = "share" if x is None or not curves["budget"].notna().all() else "budget"
    if curves.empty:
        return "No curves to compare."
    factor, axis = budget_axis(str(x), float(curves[column].max()))
    if column == "share":
        factor, axis = 1.0, {"title": {"text": "share of the budget"}, "tickformat": ".0%"}
    names = [str(name) for name in curves["algorithm"].unique()]
    figure = base_figure(
        _HEIGHT,
        alt=f"Learning curves of {', '.join(names)}: the interquartile mean of {metric}.",
        caption="The interquartile mean over runs, with the "
        f"{100 * confidence:g} % interval of each point by itself.",
        title="Learning curves",
    )
    for name, style in zip(names, _styles(len(names)), strict=True):
        rows = curves[curves["algorithm"] == name].sort_values(column)
        _add_band(figure, rows, column, "iqm", factor, name, style)
    drawn = curves[["iqm", "low", "high"]].to_numpy(float)
    figure.update_layout(
        xaxis={**axis, "range": [0, float(curves[column].max()) / factor]},
        yaxis={**value_axis(metric), "range": padded(drawn)},
        **LEGEND,
    )
    return figure


def draw_aggregates(
    frame: pd.DataFrame, metric: str, runs: Mapping[str, np.ndarray] | None = None
) -> list[go.Figure] | str:
    """Draw each statistic of each algorithm with its interval, a figure per statistic.

    Args:
        frame: `algorithm`, `statistic`, `value`, `low`, `high`, as
            `analysis.statistics.aggregates.aggregate` gives it.
        metric: What was scored.
        runs: The score of each run by algorithm, drawn beside the interquartile mean.
    """
    if frame.empty:
        return "No scores to compare."
    points = {name: np.ravel(scores) for name, scores in (runs or {}).items()}
    names = [str(name) for name in frame["algorithm"].unique()]
    styles = _styles(len(names))
    colors = {name: str(style["color"]) for name, style in zip(names, styles, strict=True)}
    figures = []
    for statistic, words in _STATISTICS.items():
        rows = frame[frame["statistic"] == statistic]
        values = rows["value"].to_numpy(float)
        if not np.isfinite(values).any():
            continue
        lower = statistic == "optimality_gap" or frame.attrs.get("mode") == "min"
        best = np.nanargmin(values) if lower else np.nanargmax(values)
        estimates = [
            Estimate(
                str(name),
                float(value),
                float(low),
                float(high),
                points.get(str(name), np.empty(0)) if statistic == "iqm" else np.empty(0),
                best=bool(place == best),
                color=colors[str(name)],
            )
            for place, (name, value, low, high) in enumerate(
                zip(rows["algorithm"], values, rows["low"], rows["high"], strict=True)
            )
        ]
        figures.append(
            draw_estimates(
                estimates,
                metric_label(metric),
                value_name=words,
                points_name="runs",
                alt=f"{words} of {plural(len(rows), 'algorithm')}.",
                caption=f"Lines: {100 * frame.attrs.get('confidence', 0.95):g} % intervals.",
                title=words,
            )
        )
    return figures or "No score is finite."


def draw_profiles(frame: pd.DataFrame, metric: str, mode: str = "max") -> go.Figure | str:
    """Draw the performance profile of each algorithm.

    Args:
        frame: `algorithm`, `threshold`, `fraction`, `low`, `high`, as
            `analysis.statistics.profiles.performance_profile` gives it.
        metric: What was scored.
        mode: `"max"` or `"min"`.
    """
    if frame.empty:
        return "No scores to compare."
    names = [str(name) for name in frame["algorithm"].unique()]
    better = "higher" if mode == "max" else "lower"
    figure = base_figure(
        _HEIGHT,
        alt=f"Performance profiles of {', '.join(names)}: the share of runs above each {metric}.",
        caption=f"The share of runs that score more than a threshold: the {better} curve is "
        f"better; where it crosses 50 % is the median run. Bands: "
        f"{100 * frame.attrs.get('confidence', 0.95):g} % intervals at each threshold.",
        title="Performance profiles",
    )
    for name, style in zip(names, _styles(len(names)), strict=True):
        rows = frame[frame["algorithm"] == name].sort_values("threshold")
        _add_band(figure, rows, "threshold", "fraction", 1.0, name, style)
    across = frame["threshold"].to_numpy(float)
    figure.update_layout(
        xaxis={**value_axis(metric), "range": [float(across.min()), float(across.max())]},
        yaxis={"title": {"text": "share of runs above"}, "tickformat": ".0%",
               "range": [-0.02, 1.02]},
        **LEGEND,
    )  # fmt: skip
    return figure


def draw_improvement(pairs: pd.DataFrame) -> go.Figure | str:
    """Draw how likely a run of each algorithm is better than a run of each other one.

    Args:
        pairs: `a`, `b`, `probability` that a run of a is better, `low`, `high`; each pair
            once, as `analysis.comparison.pairs.compare_pairs` gives it.
    """
    if pairs.empty:
        return "No pair to compare."
    names = list(dict.fromkeys([*map(str, pairs["a"]), *map(str, pairs["b"])]))
    place = {name: number_ for number_, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    texts = [["" for _ in names] for _ in names]
    hover = [["" for _ in names] for _ in names]
    for row in pairs.to_dict("records"):
        a, b = place[str(row["a"])], place[str(row["b"])]
        ends = float(row["low"]), float(row["high"])
        there = (a, b, float(row["probability"]), *ends)
        back = (b, a, 1 - float(row["probability"]), 1 - ends[1], 1 - ends[0])
        for i, j, probability, low, high in (there, back):
            table[i, j] = probability
            known = np.isfinite(low) and np.isfinite(high)
            # abs: 1 less the end of an interval may be -0.00.
            interval = f"{abs(low):.2f}–{abs(high):.2f}" if known else ""
            texts[i][j] = f"<b>{probability:.2f}</b>"
            if len(names) > _FEW:  # two digits fit a phone
                texts[i][j] = f"{100 * probability:.0f}"
            elif interval and len(names) <= _WORDY:
                texts[i][j] += f"<br>{interval}"
            hover[i][j] = (
                f"P({theme.short(names[i])} better than {theme.short(names[j])}) = "
                f"{number(probability, 3)} {interval}".strip()
            )
    # Columns by number: names side by side would cover each other on a phone.
    numbered = [f"{theme.short(name, 14)}  {n}" for n, name in enumerate(names, start=1)]
    columns = [str(n) for n in range(1, len(names) + 1)]
    unit = ", in percent" if len(names) > _FEW else ""
    cell = 44 if unit else 72
    figure = base_figure(
        cell * len(names) + 90,
        alt=f"The probability of improvement between {', '.join(names)}.",
        caption=f"How likely a run of the row is better than a run of the column{unit}, ties "
        f"counting half; {'50' if unit else '0.5'}: neither is.",
        title="Probability of improvement",
    )
    places = np.arange(len(names), dtype=float)
    figure.add_heatmap(
        x=small(places), y=small(places), z=table.astype(np.float32), zmin=0, zmax=1, xgap=2,
        ygap=2, colorscale=theme.SEQUENTIAL, showscale=False, text=texts, texttemplate="%{text}",
        customdata=hover, hovertemplate="%{customdata}<extra></extra>", hoverongaps=False,
    )  # fmt: skip
    shared = {"tickvals": list(places), "showgrid": False, "zeroline": False}
    figure.update_layout(
        xaxis={**shared, "ticktext": columns, "side": "top"},
        yaxis={**shared, "ticktext": numbered, "range": [len(names) - 0.5, -0.5]},
    )
    return figure


def _styles(count: int) -> Sequence[dict[str, Any]]:
    """Return a colour and a dash for each; both differ, so that colour never speaks alone."""
    colors = theme.PALETTE
    return [
        {"color": colors[n % len(colors)], "dash": _DASHES[(n + n // len(colors)) % len(_DASHES)]}
        for n in range(count)
    ]


def _add_band(
    figure: go.Figure,
    rows: pd.DataFrame,
    x: str,
    y: str,
    factor: float,
    name: str,
    style: dict[str, Any],
) -> None:
    known = rows[np.isfinite(rows["low"]) & np.isfinite(rows["high"])]
    across = known[x].to_numpy(float) / factor
    figure.add_scatter(
        x=small([*across, *across[::-1]]), y=small([*known["low"], *known["high"][::-1]]),
        fill="toself", fillcolor=theme.rgba(style["color"], 0.16), line={"width": 0},
        mode="lines", hoverinfo="skip", showlegend=False, legendgroup=name, name=f"{name} interval",
    )  # fmt: skip
    figure.add_scatter(
        x=small(rows[x] / factor), y=small(rows[y]), mode="lines", name=theme.short(name, 18),
        line={"width": 2.4, **style}, legendgroup=name,
        hovertemplate=f"<b>{theme.short(name)}</b>: %{{y:.4~g}} at %{{x:.4~s}}<extra></extra>",
    )  # fmt: skip
