"""Slices: the value of each trial against one setting, with the partial dependence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.curves.thinning import has_full_budget
from analysis.figures import theme
from analysis.figures.common import (
    base_figure,
    chosen_settings,
    hover_lines,
    padded,
    setting_axis,
    small,
    value_axis,
)
from analysis.importance.scales import Scale, number, scales_of

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 300
_MOST = 400
"""Points of a slice; of more trials every so many are drawn."""
_HOVERED = 100
"""Up to so many trials the hover text names all settings, else only the slice's."""
_SHIFT = 0.18
"""By how much of the room between two levels a level's points are moved at most."""
_OWN = ("trial_id", "value", "status", "env_steps")


def slices(data: ReportData) -> list[go.Figure] | str | None:
    """Return a figure for each of the most important settings."""
    if not chosen_settings(data):
        return None
    if len(data.values) < 2:
        return "Slices need two trials with a value."
    names = [name for name in chosen_settings(data) if name in data.top_settings]
    scales = scales_of(data.values, names, data.spec.get("search_space"))
    figures = []
    for name in names:
        found = data.partial_dependence((name,))
        dependence = None if isinstance(found, str) else found
        values, at = data.values_of(dependence)
        if data.explains_nothing:  # the line would be noise, the points are what happened
            dependence = None
        figures.append(draw_slice(values, name, scales[name], data.metric, dependence, at=at))
    return figures


def draw_slice(
    values: pd.DataFrame,
    name: str,
    scale: Scale,
    metric: str,
    dependence: pd.DataFrame | None = None,
    *,
    at: float | None = None,
) -> go.Figure:
    """Draw the trials' values against a setting.

    Args:
        values: One row per trial, best first: `trial_id`, `value`, `env_steps`, settings.
        name: The setting's column.
        scale: The setting's.
        metric: What `value` is.
        dependence: The setting's column on a grid, and `mean`, `low` and `high`, as
            `analysis.importance.importance.partial_dependence_frame` gives them.
        at: The budget at which the values were taken; None for the last ones.
    """
    figure = base_figure(
        _HEIGHT,
        alt=f"{metric} of {len(values)} trials against {name}.",
        caption=_caption(values, dependence, at, scale),
    )
    _add_trials(figure, values, name, scale, fair=at is not None)
    if dependence is not None and len(dependence):
        _add_dependence(figure, dependence, name, scale)
    positions = scale.positions(values[name])
    if dependence is not None:
        positions = np.concatenate([positions, scale.positions(dependence[name])])
    drawn = [values["value"].to_numpy(float)]
    if dependence is not None:
        drawn += [dependence[end].to_numpy(float) for end in ("low", "high", "mean")]
    figure.update_layout(
        xaxis=setting_axis(scale, positions, name),
        yaxis={**value_axis(metric, at), "range": padded(np.concatenate(drawn), 0.08)},
    )
    return figure


def _add_dependence(figure: go.Figure, dependence: pd.DataFrame, name: str, scale: Scale) -> None:
    ordered = dependence.assign(_place=scale.positions(dependence[name])).sort_values("_place")
    ordered = ordered[np.isfinite(ordered["_place"])]
    x = scale.drawn(ordered["_place"].to_numpy(float))
    mean, low, high = (ordered[column].to_numpy(float) for column in ("mean", "low", "high"))
    known = np.isfinite(low) & np.isfinite(high)
    hover = "partial dependence<br>%{y:.4~g}<extra></extra>"
    if scale.kind == "category":
        figure.add_scatter(
            x=small(x), y=small(mean), mode="markers", name="partial dependence",
            marker={"symbol": "diamond", "size": 11, "color": theme.ORANGE}, hovertemplate=hover,
            error_y={"type": "data", "symmetric": False, "width": 7, "thickness": 2,
                     "color": theme.ORANGE,
                     "array": small(high - mean), "arrayminus": small(mean - low)},
        )  # fmt: skip
        return
    figure.add_scatter(
        x=small([*x[known], *x[known][::-1]]), y=small([*low[known], *high[known][::-1]]),
        fill="toself", fillcolor=theme.rgba(theme.ORANGE, 0.2), line={"width": 0}, mode="lines",
        hoverinfo="skip", name="spread of the partial dependence",
    )  # fmt: skip
    figure.add_scatter(
        x=small(x), y=small(mean), mode="lines", line={"color": theme.ORANGE, "width": 2.4},
        name="partial dependence", hovertemplate=hover,
    )  # fmt: skip


def _add_trials(
    figure: go.Figure, values: pd.DataFrame, name: str, scale: Scale, *, fair: bool
) -> None:
    """Draw a point per trial: hollow if it was stopped early."""
    step = int(np.ceil(len(values) / _MOST))
    shown = values.iloc[::step]
    positions = scale.positions(shown[name])
    if scale.kind == "category":
        # At random: points do not cover each other, and nobody takes the shift for an effect.
        positions = positions + np.random.default_rng(0).uniform(-_SHIFT, _SHIFT, len(positions))
    x, y = scale.drawn(positions), shown["value"].to_numpy(float)
    settings = [c for c in shown.columns if c not in _OWN] if len(shown) <= _HOVERED else [name]
    texts = np.array(
        [
            hover_lines(str(row["trial_id"]), float(row["value"]), {c: row[c] for c in settings})
            for row in shown.to_dict("records")
        ],
        dtype=object,
    )
    best = np.arange(len(shown)) == 0
    full = _trained_to_the_end(values).to_numpy()[::step] | fair
    # Of many the size and the opacity leave the partial dependence to be seen.
    others = {"color": theme.GREY, "size": 7, "opacity": 0.85}
    if len(shown) > _HOVERED:
        others.update(size=5, opacity=0.55)
    for label, chosen, marker in (
        ("stopped early", ~full & ~best, {"symbol": "circle-open", **others}),
        ("trials", full & ~best, {"symbol": "circle", **others}),
        ("best", best, {"symbol": "star", "size": 15, "color": theme.BLUE}),
    ):
        if chosen.any():
            figure.add_scatter(
                x=small(x[chosen]), y=small(y[chosen]), text=list(texts[chosen]), mode="markers",
                marker=marker, name=label, hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip


def _trained_to_the_end(values: pd.DataFrame) -> pd.Series:
    steps = values.get("env_steps", pd.Series(np.nan, values.index)).astype(float)
    return pd.Series(np.array(has_full_budget(steps.tolist())), index=values.index)


def _caption(
    values: pd.DataFrame, dependence: pd.DataFrame | None, at: float | None, scale: Scale
) -> str:
    parts = ["Star: the best trial."]
    if at is not None:
        parts.append(f"Values at {number(at, 3)} steps, which all trials reached.")
    elif not _trained_to_the_end(values).all():
        parts.append("Hollow: stopped before the full budget.")
    if len(values) > _MOST:
        parts.append(f"One in {int(np.ceil(len(values) / _MOST))} of {len(values):,} trials.")
    if scale.kind == "category":
        parts.append("Points with the same value are spread at random to keep all visible.")
    if dependence is not None:
        parts.append("Orange: partial dependence with its spread.")
    return " ".join(parts)
