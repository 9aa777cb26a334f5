"""ASHA and HyperBand: who was judged at which budget, who went on, and where the bar was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import (
    LEGEND,
    base_figure,
    budget_axis,
    budget_words,
    hover_lines,
    joined,
    padded,
    plural,
    small,
    value_axis,
)
from analysis.importance.scales import number
from analysis.names import ENV_STEPS, finite, metric_label, sign_of
from analysis.results.records import TrialRecord
from analysis.results.schedulers import STOPPING

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 360
_WIDTH = 0.3
"""Half of the room of a rung that its trials are spread over."""
_MOST_LINES = 200

WENT_ON, STOPPED, FAILED, WAITING = "went on", "stopped", "failed", "runs or waits"
ENDED = "ran to the end"
_MARKERS: dict[str, dict[str, Any]] = {
    ENDED: {"symbol": "star", "size": 10, "color": theme.BLUE},
    WENT_ON: {"symbol": "circle", "size": 8, "color": theme.BLUE},
    STOPPED: {"symbol": "circle-open", "size": 8, "color": theme.ORANGE},
    FAILED: {"symbol": "x", "size": 8, "color": theme.RED},
    WAITING: {"symbol": "diamond-open", "size": 8, "color": theme.GREY},
}


def rungs(data: ReportData) -> list[go.Figure] | str | None:
    """Draw the values at the rungs, and the budget that each trial reached."""
    scheduler = data.scheduler
    if scheduler.get("algorithm") not in STOPPING:
        return None
    time_attr = str(scheduler.get("time_attr") or ENV_STEPS)
    trials = data.sweep.trials
    if not any(len(finite(trial.frame.get(time_attr))) for trial in trials):
        return f"No trial reported {time_attr}, which the scheduler uses."
    figures = []
    levels = rung_levels(scheduler)
    if levels:
        table = rung_table(trials, levels, time_attr, data.metric)
        if not np.isfinite(table["value"].to_numpy(float)).any():
            return (
                f"No trial has a finite {data.metric} at a rung; the first is {number(levels[0])}."
            )
        factor = float(scheduler.get("reduction_factor") or 0)
        one_bracket = scheduler["algorithm"] == "asha" and scheduler.get("brackets", 1) == 1
        cutoffs = final_cutoffs(table, levels, factor, data.mode) if one_bracket else {}
        figures.append(draw_rungs(table, levels, cutoffs, data.metric, time_attr))
    reached = budgets(trials, time_attr)
    figures.append(draw_budgets(reached, levels, time_attr, seeds=len(data.seeds)))
    return figures


def rung_levels(scheduler: Mapping[str, Any]) -> list[float]:
    """Return the budgets at which trials are judged, and the full budget, by the spec.

    ASHA: `grace_period * reduction_factor**k` up to `max_t`. HyperBand: `max_t` divided by
    powers of the factor, down to the first rung of the bracket that halves most (see
    `experiments.schedulers.hyperband`).
    """
    known = [scheduler.get(name) for name in ("max_t", "grace_period", "reduction_factor")]
    if not all(isinstance(value, int | float) and value > 0 for value in known):
        return []
    most, grace, factor = (float(value) for value in known if value is not None)
    if factor <= 1:
        return []
    count = int(math.log(most / grace) / math.log(factor) + 1e-9)
    if scheduler.get("algorithm") == "hyperband":
        return [most / factor**k for k in range(count, -1, -1)]
    levels = [grace * factor**k for k in range(count + 1)]
    return levels if math.isclose(levels[-1], most) else [*levels, most]


def rung_table(
    trials: Sequence[TrialRecord], levels: Sequence[float], time_attr: str, metric: str
) -> pd.DataFrame:
    """Return each trial at each rung that it reached: `trial_id, rung, budget, value, fate`.

    A trial is at a rung with its first result from that budget on, as schedulers see it.
    """
    rows = []
    for trial in trials:
        budget = finite(trial.frame.get(time_attr))
        values = finite(trial.frame.get(metric)).reindex(budget.index)
        for rung, level in enumerate(levels):
            reached = np.flatnonzero(budget.to_numpy() >= level)
            if not len(reached):
                break
            row = int(reached[0])
            fate = _fate(trial.status, last=row == len(budget) - 1, top=rung == len(levels) - 1)
            value = float(values.iloc[row])
            rows.append((trial.trial_id, rung, float(budget.iloc[row]), value, fate))
    return pd.DataFrame(rows, columns=["trial_id", "rung", "budget", "value", "fate"])


def _fate(status: str, *, last: bool, top: bool) -> str:
    if status == "ERROR" and last:
        return FAILED
    if top:
        return ENDED
    if not last:
        return WENT_ON
    return STOPPED if status == "TERMINATED" else WAITING


def final_cutoffs(
    table: pd.DataFrame, levels: Sequence[float], factor: float, mode: str
) -> dict[int, float]:
    """Return ASHA's cut-off at each rung but the last, by all values that are there now.

    The quantile `1 - 1/factor` (in mode `min` `1/factor`) of the values, as in
    `ray.tune.schedulers.AsyncHyperBandScheduler`; when a trial was judged there were fewer.
    """
    share = 1 - 1 / factor if sign_of(mode) > 0 else 1 / factor
    cutoffs = {}
    for rung, rows in table[table["rung"] < len(levels) - 1].groupby("rung"):
        values = rows["value"].dropna().to_numpy(float)
        if len(values):
            cutoffs[int(str(rung))] = float(np.quantile(values, share))
    return cutoffs


def budgets(trials: Sequence[TrialRecord], time_attr: str) -> pd.DataFrame:
    """Return the budget that each trial reached, in the order of creation, and how it ended."""
    rows = []
    for order, trial in enumerate(trials, start=1):
        reached = finite(trial.frame.get(time_attr))
        rows.append(
            (order, trial.trial_id, float(reached.max()) if len(reached) else 0.0, trial.status)
        )
    return pd.DataFrame(rows, columns=["order", "trial_id", "budget", "status"])


def draw_rungs(
    table: pd.DataFrame,
    levels: Sequence[float],
    cutoffs: Mapping[int, float],
    metric: str,
    time_attr: str,
) -> go.Figure:
    """Draw the values at each rung, by fate, with the cut-offs and lines from rung to rung."""
    table = table[np.isfinite(table["value"])].copy()
    order = table.groupby("rung").cumcount().to_numpy()
    count = table.groupby("rung")["rung"].transform("size").to_numpy()
    # Side by side in the order in which the trials were made.
    table["x"] = table["rung"] + np.where(
        count > 1, _WIDTH * (2 * order / np.maximum(count - 1, 1) - 1), 0.0
    )
    figure = base_figure(
        _HEIGHT,
        alt=_rungs_alt(table, levels, metric),
        caption=_rungs_caption(table, cutoffs),
        title=f"{metric_label(metric).capitalize()} at each rung",
    )
    paths = [(t["x"].to_numpy(), t["value"].to_numpy()) for _, t in table.groupby("trial_id")]
    x, y = joined([path for path in paths if len(path[0]) > 1][:_MOST_LINES])
    figure.add_scatter(
        x=x, y=y, mode="lines", line={"color": theme.rgba(theme.GREY, 0.35), "width": 1},
        hoverinfo="skip", name="from rung to rung", showlegend=False,
    )  # fmt: skip
    for fate, marker in _MARKERS.items():
        rows = table[table["fate"] == fate]
        if len(rows):
            texts = [
                f"{hover_lines(str(t), float(v))}<br>at {number(float(b))}: {fate}"
                for t, v, b in zip(rows["trial_id"], rows["value"], rows["budget"], strict=True)
            ]
            figure.add_scatter(
                x=small(rows["x"]), y=small(rows["value"]), mode="markers",
                marker=_sized(marker, len(table)), name=fate, text=texts,
                hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip
    for place, (rung, cutoff) in enumerate(sorted(cutoffs.items())):
        figure.add_scatter(
            x=[rung - 0.42, rung + 0.42], y=[cutoff, cutoff], mode="lines", name="cut-off",
            line={"color": theme.PURPLE, "width": 2, "dash": "dot"}, showlegend=place == 0,
            hovertemplate=f"cut-off {number(cutoff)}<extra></extra>", legendgroup="cut-off",
        )  # fmt: skip
    here = table.groupby("rung").size()
    shown = [rung for rung in range(len(levels)) if rung in here.index]
    texts = [f"{number(levels[rung], 3)}<br>{plural(here[rung], 'trial')}" for rung in shown]
    figure.update_layout(
        xaxis={"tickvals": shown, "ticktext": texts, "range": [-0.5, max(shown) + 0.5],
               "title": {"text": budget_words(time_attr)}, "showgrid": False},
        yaxis={**value_axis(metric), "range": padded(table["value"].to_numpy(float), 0.08)},
        **LEGEND,
    )  # fmt: skip
    return figure


def draw_budgets(
    frame: pd.DataFrame, levels: Sequence[float], time_attr: str, *, seeds: int = 0
) -> go.Figure:
    """Draw the budget that each trial reached, in the order in which they were made."""
    full = levels[-1] if levels else float(frame["budget"].max())
    ends = zip(frame["status"], frame["budget"] >= full, strict=True)
    frame = frame.assign(fate=[_fate(status, last=True, top=top) for status, top in ends])
    divisor, axis = budget_axis(time_attr, float(frame["budget"].max()))
    total = frame["budget"].sum()
    times = full * len(frame) / total if total else 1.0
    saved = f" Training all trials to the full budget would cost {times:.2g} times as much."
    unit = budget_words(time_attr)
    figure = base_figure(
        _HEIGHT,
        alt=f"The budget of each of {plural(len(frame), 'trial')}, in the order of their start.",
        caption=f"Together {number(total, 3)} {unit}"
        + (f" of each of {seeds} seeds." if seeds > 1 else ".")
        + (saved if times > 1.05 else "")
        + (" Dotted: the rungs." if levels else ""),
        title="Budget that each trial reached",
    )
    stems = [
        (np.array([order, order]), np.array([0, budget]) / divisor)
        for order, budget in zip(frame["order"], frame["budget"], strict=True)
    ]
    x, y = joined(stems)
    width = 4 if len(frame) <= 60 else 1
    figure.add_scatter(
        x=x, y=y, mode="lines", hoverinfo="skip", showlegend=False, name="budget",
        line={"color": theme.rgba(theme.GREY, 0.45), "width": width},
    )  # fmt: skip
    for fate, rows in frame.groupby("fate", sort=False):
        marker = _sized(_MARKERS[str(fate)], len(frame))
        texts = [
            f"<b>{theme.plain(t)}</b><br>{number(float(b))} {unit}"
            for t, b in zip(rows["trial_id"], rows["budget"], strict=True)
        ]
        figure.add_scatter(
            x=small(rows["order"]), y=small(rows["budget"] / divisor), mode="markers",
            marker=marker, name=str(fate), text=texts,
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    for level in levels:
        figure.add_shape(
            type="line", xref="paper", x0=0, x1=1, y0=level / divisor, y1=level / divisor,
            line={"color": theme.rgba(theme.PURPLE, 0.7), "width": 1, "dash": "dot"},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "trial, in the order of their start"}, "showgrid": False,
               "range": [0.3, len(frame) + 0.7], "nticks": 8},
        yaxis={**axis, "rangemode": "tozero"},
        **LEGEND,
    )  # fmt: skip
    return figure


def _rungs_alt(table: pd.DataFrame, levels: Sequence[float], metric: str) -> str:
    counts = [
        f"{len(rows)} at {number(levels[int(str(rung))])}" for rung, rows in table.groupby("rung")
    ]
    return f"{metric} of the trials at each rung: {', '.join(counts)}."


def _rungs_caption(table: pd.DataFrame, cutoffs: Mapping[int, float]) -> str:
    parts = ["A trial's value when it reached the rung; lines join its rungs."]
    if cutoffs:
        parts.append(
            "Dotted: the cut-off by all values up to now. The scheduler compares a trial only with "
            "earlier ones, so some trials below the line continued."
        )
    if table["trial_id"].nunique() > _MOST_LINES:
        parts.append(f"Lines of {_MOST_LINES} trials.")
    return " ".join(parts)


def _sized(marker: dict[str, Any], points: int) -> dict[str, Any]:
    return marker if points <= 200 else {**marker, "size": marker["size"] / 2, "opacity": 0.7}
