"""The seeds of the winner, and what held-out seeds say of the best configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from analysis.curves.thinning import Curve, thin
from analysis.figures import theme
from analysis.figures.common import (
    base_figure,
    budget_axis,
    end_labels,
    padded,
    plural,
    small,
    value_axis,
)
from analysis.figures.curves import Line, line_of
from analysis.figures.estimates import Estimate, draw_estimates
from analysis.importance.scales import label
from analysis.names import ENV_STEPS, finite, metric_label
from analysis.overview.groups import Group, groups
from analysis.results.records import TrialRecord
from analysis.statistics import interval_caution, interval_label, iqm, iqm_interval

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 380
_TRIALS = 5
_NAMED = 6
"""Up to so many seeds each curve has its name at its end."""


def winner_seeds(data: ReportData) -> list[go.Figure] | str | None:
    """Draw the curve of each seed of the winner, and the last values of the best trials' seeds."""
    if data.winner is None:
        return None
    if len(data.seeds) < 2:
        return draw_groups(groups(data), data.metric)
    x = data.steps_axis
    curves = seed_curves(data.winner, data.metric, data.seeds, x)
    whole = line_of(data.winner, data.metric, x)
    if len(curves) < 2 or not len(whole.x):
        return f"The winner, {data.winner.trial_id}, has no values of single seeds."
    best = [trial for trial, score in data.ranked if score.found][:_TRIALS]
    values = {
        trial.trial_id: np.array(
            [curve[1][-1] for curve in seed_curves(trial, data.metric, data.seeds, x).values()]
        )
        for trial in best
    }
    return [
        draw_seed_curves(curves, whole, data.metric, x),
        draw_seed_values(values, data.metric),
    ]


def draw_groups(found: Sequence[Group], metric: str) -> list[go.Figure] | None:
    """Draw the configurations of a sweep whose trials are a seed each; None if it is none.

    Args:
        found: The configurations, best first.
        metric: What their values are.
    """
    if not found:
        return None
    estimates = []
    for place, group in enumerate(found, start=1):
        values = ", ".join(label(value) for value in group.settings.values())
        settings = ", ".join(f"{name} = {label(v)}" for name, v in group.settings.items())
        estimates.append(
            Estimate(
                f"{place}: {values}" if values else "all runs",
                group.iqm,
                group.low,
                group.high,
                np.array(list(group.values.values()), float),
                best=place == 1,
                detail=f"{place}: {settings}" if settings else "",
            )
        )
    names = ", ".join(f"`{name}`" for name in found[0].settings)
    rows = f"Rows: {names}. " if names else ""
    seeds = max(len(group.values) for group in found)
    return [
        draw_estimates(
            estimates,
            metric_label(metric),
            value_name="IQM, interval",
            points_name="seeds",
            alt=f"The last values of {plural(len(found), 'configuration')} on {seeds} seeds.",
            caption=f"{rows}Lines: the {interval_label(seeds)}. {interval_caution(seeds)}".strip(),
            title="Last values on each seed",
        )
    ]


def final_seeds(data: ReportData) -> go.Figure | str | None:
    """Return the final values on seeds that the search never saw."""
    return None if data.final is None else draw_held_out(data.final)


def seed_curves(trial: TrialRecord, metric: str, seeds: list[int], x: str) -> dict[int, Curve]:
    """Return the curve of each seed of a trial that reported finite values."""
    steps = finite(trial.frame.get(x))
    curves = {}
    for seed in seeds:
        values = finite(trial.frame.get(f"seed_{seed}/{metric}"))
        rows = values.index.intersection(steps.index)
        if len(rows):
            curves[seed] = (steps[rows].to_numpy(), values[rows].to_numpy())
    return curves


def draw_seed_curves(
    curves: Mapping[int, Curve], whole: Line, metric: str, x: str = ENV_STEPS
) -> go.Figure:
    """Draw the curves of the seeds of a trial, and their interquartile mean with its interval.

    Args:
        curves: The curves by seed.
        whole: The trial's own curve with its interval.
        metric: What is on the y axis.
        x: What the budget is.
    """
    greatest = max(float(curve[0][-1]) for curve in curves.values())
    factor, axis = budget_axis(x, greatest)
    interval = interval_label(len(curves))
    figure = base_figure(
        _HEIGHT,
        alt=f"The {plural(len(curves), 'seed')} of {whole.trial_id}: {metric} over the budget.",
        caption=f"Trial {whole.trial_id}. Bold: the interquartile mean of its seeds; shaded: its "
        f"{interval}.",
        title="Learning curves of the winner's seeds",
    )
    if whole.low is not None and whole.high is not None:
        low, high = (thin(whole.x / factor, end, 200) for end in (whole.low, whole.high))
        figure.add_scatter(
            x=small([*low[0], *high[0][::-1]]), y=small([*low[1], *high[1][::-1]]),
            fill="toself", fillcolor=theme.rgba(theme.BLUE, 0.2), line={"width": 0}, mode="lines",
            hoverinfo="skip", name="interval",
        )  # fmt: skip
    dashes = ("solid", "dash", "dot", "dashdot")
    ends = []
    for number, (seed, (steps, values)) in enumerate(curves.items()):
        curve = thin(steps / factor, values, 200 if len(curves) <= _NAMED else 80)
        figure.add_scatter(
            x=small(curve[0]), y=small(curve[1]), mode="lines", name=f"seed {seed}",
            line={"color": theme.GREY, "width": 1.3, "dash": dashes[number % len(dashes)]},
            hovertemplate=f"<b>seed {seed}</b>: %{{y:.4~g}} at %{{x:.4~s}}<extra></extra>",
        )  # fmt: skip
        if len(curves) <= _NAMED:
            ends.append((float(curve[0][-1]), float(curve[1][-1]), f"seed {seed}"))
    middle = thin(whole.x / factor, whole.y, 200)
    figure.add_scatter(
        x=small(middle[0]), y=small(middle[1]), mode="lines", name="IQM",
        line={"color": theme.BLUE, "width": 2.8},
        hovertemplate="<b>IQM</b>: %{y:.4~g} at %{x:.4~s}<extra></extra>",
    )  # fmt: skip
    ends.append((float(middle[0][-1]), float(middle[1][-1]), "IQM"))
    drawn = np.concatenate([np.asarray(trace.y, float) for trace in figure.data])
    low_end, high_end = padded(drawn)
    axis["range"] = [0.0, greatest / factor * 1.01]
    figure.update_layout(
        xaxis=axis, yaxis={**value_axis(metric), "range": [low_end, high_end]}, margin_r=76
    )
    end_labels(figure, ends, _HEIGHT - 70, low_end, high_end)
    return figure


def draw_seed_values(values: Mapping[str, np.ndarray], metric: str) -> go.Figure:
    """Draw the final values of the seeds of trials, and their interquartile means.

    Args:
        values: The values by trial, the best one first: `[seeds]`.
        metric: What they are.
    """
    estimates = [
        Estimate(trial, iqm(points), *iqm_interval(points), points, best=place == 0)
        for place, (trial, points) in enumerate(values.items())
    ]
    seeds = max(len(points) for points in values.values())
    return draw_estimates(
        estimates,
        metric_label(metric),
        value_name="IQM, interval",
        points_name="seeds",
        alt=f"The last values of the seeds of the best {plural(len(values), 'trial')}.",
        caption=f"Lines: the {interval_label(seeds)}. {interval_caution(seeds)}".strip(),
        title="Last values of the seeds of the best trials",
    )


def draw_held_out(final: Mapping[str, Any]) -> go.Figure | str:
    """Draw what held-out seeds say of each configuration beside what the search said.

    Args:
        final: The content of `final.json`.
    """
    judged = [c for c in final["configurations"] if c.get("held_out_iqm") is not None]
    if not judged:
        return "No configuration has two finished held-out runs."
    estimates = [
        Estimate(
            f"{place}: {config['trial_id']}",
            config["held_out_iqm"],
            _number(config.get("held_out_low")),
            _number(config.get("held_out_high")),
            np.array(list(config["values"].values()), float),
            other=config.get("search_last"),
            best=config["trial_id"] == final.get("winner"),
        )
        for place, config in enumerate(judged, start=1)
    ]
    seeds = max(len(estimate.points) for estimate in estimates)
    metric = str(final.get("metric", "value"))
    notes = [
        f"Lines: the {interval_label(seeds)}.",
        final.get("caution"),
        final.get("winner_caution"),
    ]
    return draw_estimates(
        estimates,
        metric_label(metric),
        value_name="IQM, interval",
        points_name="held-out runs",
        other_name="search's estimate",
        alt=f"{plural(len(judged), 'configuration')} on {plural(seeds, 'held-out seed')}: "
        f"{metric}, with the search's estimates.",
        caption=" ".join(["Bold, blue: the winner.", *(note for note in notes if note)]),
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
