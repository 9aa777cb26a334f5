"""What each setting with few levels did: its effect with an interval, ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.estimates import Estimate, draw_estimates
from analysis.importance.effects import level_label
from analysis.importance.scales import number
from analysis.names import metric_label, setting_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_MOST = 6
"""Settings whose levels the caption names."""


def effects(data: ReportData) -> go.Figure | None:
    """Return the effects of the settings; nothing where the sweep's trials do not compare them."""
    return None if data.effects is None else draw_effects(data.effects)


def draw_effects(frame: pd.DataFrame) -> go.Figure:
    """Draw a row per setting; those whose interval excludes 0 stand out.

    Args:
        frame: What `analysis.importance.effects.effects_frame` gives, with a setting at least.
    """
    settings = [levels for _, levels in frame.groupby("rank", sort=True)]
    estimates = [_estimate(levels.iloc[0]) for levels in settings]
    certain = [estimate.name for estimate in estimates if estimate.best]
    # What the page writes in backticks is code.
    levels = [
        f"`{setting_label(str(one.iloc[0]['setting']))}`: {_levels(one)}"
        for one in settings[:_MOST]
    ]
    figure = draw_estimates(
        estimates,
        f"best level minus worst: {metric_label(frame.attrs['metric'])}",
        value_name=f"effect, {100 * frame.attrs['confidence']:g} % interval",
        alt="Effects of the settings. "
        + (f"Not 0: {', '.join(certain)}." if certain else "No interval excludes 0."),
        caption="Effect: the best level of a setting minus its worst one, by the mean over the "
        "last fifth of each trial. All intervals hold at once; blue ones exclude 0. Best levels "
        f"first: {'; '.join(levels)}.",
    )
    low, high = figure.layout.xaxis.range
    figure.update_xaxes(range=[min(low, 0.0), max(high, 0.0)])
    figure.add_vline(x=0, line={"color": theme.GREY, "width": 1}, layer="below")
    return figure


def _estimate(row: pd.Series) -> Estimate:
    return Estimate(
        str(row["setting"]),
        row["effect"],
        row["effect_low"],
        row["effect_high"],
        best=bool(row["excludes_zero"]),
    )


def _levels(levels: pd.DataFrame) -> str:
    """Return a setting's levels with their means: `relu (210), tanh (180)`."""
    return ", ".join(
        f"{level_label(row['level'])} ({number(row['mean'])})" for row in levels.to_dict("records")
    )
