"""Several algorithms or sweeps side by side: curves, estimates, profiles, who is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.comparison.shared_budget import score_tables
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
from analysis.statistics.profiles import performance_profile

if TYPE_CHECKING:
    from analysis.comparison.outcome import Comparison

_HEIGHT = 400
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_IQM = "Interquartile mean"
_FEW = 5
"""Of more algorithms the cells of the matrix are percents."""
_WORDY = 3
"""Up to so many algorithms a cell of the matrix has room for its interval."""


def comparison_figures(found: Comparison) -> list[go.Figure]:
    """Draw curves over the shared budget, values with intervals, profiles, and who is better.

    Args:
        found: What `analysis.compare` gave.
    """
    scaled = bool(found.tasks["low"].notna().all())
    metric = f"normalised {metric_label(found.metric)}" if scaled else found.metric
    mode = "max" if scaled else found.mode
    scores = score_tables(found.runs)
    profile = performance_profile(scores, confidence=found.confidence, resamples=500)
    drawn = [
        draw_compared_curves(
            found.curves, metric, found.x if found.budget else None, found.confidence
        ),
        draw_iqm(found.summary, metric, mode, scores, found.confidence),
        draw_profiles(profile, metric, mode),
        draw_improvement(found.pairs),
    ]
    parts = [part if isinstance(part, list) else [part] for part in drawn]
    return [figure for part in parts for figure in part if not isinstance(figure, str)]


def draw_compared_curves(
    curves: pd.DataFrame, metric: str, x: str | None, confidence: float = 0.95
) -> go.Figure | str:
    """Draw the interquartile mean of each algorithm over the shared budget, with its interval.

    Args:
        curves: `algorithm`, `share`, `budget`, `iqm`, `low`, `high`, as of
            `analysis.comparison.outcome.Comparison`.
        metric: What is on the y axis.
        x: What the budget is counted in; None where the tasks have different budgets: then the
            share of each task's is across.
        confidence: The level of the intervals.
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


def draw_iqm(
    summary: pd.DataFrame,
    metric: str,
    mode: str,
    runs: Mapping[str, np.ndarray],
    confidence: float = 0.95,
) -> go.Figure | str:
    """Draw the interquartile mean of each algorithm with its interval.

    Of a few runs mean and median say less, and are in the table.

    Args:
        summary: `algorithm`, `iqm`, `iqm_low`, `iqm_high`, as of
            `analysis.comparison.outcome.Comparison`.
        metric: What was scored.
        mode: `"max"` or `"min"`.
        runs: The score of each run by algorithm.
        confidence: The level of the intervals.
    """
    values = summary["iqm"].to_numpy(float)
    if not np.isfinite(values).any():
        return "No score is finite."
    best = np.nanargmin(values) if mode == "min" else np.nanargmax(values)
    styles = _styles(len(summary))
    estimates = [
        Estimate(
            str(row["algorithm"]),
            float(row["iqm"]),
            float(row["iqm_low"]),
            float(row["iqm_high"]),
            np.ravel(runs[row["algorithm"]]),
            best=bool(place == best),
            color=str(style["color"]),
        )
        for place, (row, style) in enumerate(zip(summary.to_dict("records"), styles, strict=True))
    ]
    return draw_estimates(
        estimates,
        metric_label(metric),
        value_name=_IQM,
        points_name="runs",
        alt=f"{_IQM} of {plural(len(summary), 'algorithm')}.",
        caption=f"Lines: {100 * confidence:g} % intervals.",
        title=_IQM,
    )


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
        f"better, and crosses 50 % at the median run. Bands: "
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
        caption=f"The probability that a run of the row is better than a run of the column{unit}. "
        f"Ties count half; {'50' if unit else '0.5'}: no difference.",
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
