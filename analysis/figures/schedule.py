"""Population-based training: the settings that the winner's weights were trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import base_figure, budget_axis, plural, setting_axis, small
from analysis.importance.scales import Scale, label, scales_of
from analysis.names import finite
from analysis.overview.lineage import ancestry, schedule
from analysis.results.schedulers import POPULATION

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_PANEL = 118
_MOST_SETTINGS = 6


def winner_schedule(data: ReportData) -> go.Figure | str | None:
    """Return the settings that the winner's weights were trained with, over its budget."""
    if data.scheduler.get("algorithm") not in POPULATION or data.winner is None:
        return None
    if not ancestry(data.lineage, data.winner.trial_id):
        return "The winner was never replaced, so its settings did not change."
    time_attr = data.lineage[0].time_attr
    end = float(finite(data.winner.frame.get(time_attr)).iloc[-1])
    changes = schedule(data.lineage, data.winner.trial_id)
    frame = _settings_frame(changes)
    space = data.spec.get("search_space")
    return draw_schedule(frame, scales_of(frame, _changing(frame), space), end, time_attr)


def _settings_frame(changes: Sequence[tuple[float, dict[str, Any]]]) -> pd.DataFrame:
    """Return a row for each change: `budget` and a column per setting."""
    rows = [
        {"budget": budget, **{name.replace(".", "/"): v for name, v in settings.items()}}
        for budget, settings in changes
    ]
    return pd.DataFrame(rows)


def _changing(frame: pd.DataFrame) -> list[str]:
    """Return the settings that change first, then the others; so many as are drawn."""
    names = [str(name) for name in frame.columns if name != "budget"]
    names.sort(key=lambda name: frame[name].map(label).nunique() == 1)  # stable
    return names[:_MOST_SETTINGS]


def draw_schedule(
    frame: pd.DataFrame, scales: Mapping[str, Scale], end: float, time_attr: str
) -> go.Figure:
    """Draw each setting over the budget, in steps, one panel below the other.

    Args:
        frame: `budget` from which a row's settings held, and a column per setting.
        scales: The scales of the settings that are drawn.
        end: The last budget.
        time_attr: What the budget counts.
    """
    from plotly.subplots import make_subplots

    names = list(scales)
    height = max(_PANEL * len(names), 190) + 50
    figure = make_subplots(
        rows=len(names), cols=1, shared_xaxes=True,
        vertical_spacing=min(0.12, 30 / height), figure=base_figure(
            height,
            alt=f"The winner's {plural(len(names), 'setting')} over its budget, changed "
            f"{plural(len(frame) - 1, 'time')}.",
            caption="The settings that the winner's final weights were trained with, its "
            "ancestors' included.",
        ),
    )  # fmt: skip
    factor, axis = budget_axis(time_attr, end)
    x = np.append(frame["budget"].to_numpy(float), end) / factor
    for row, name in enumerate(names, start=1):
        scale = scales[name]
        positions = scale.positions(frame[name])
        places = np.append(positions, positions[-1])
        texts = [label(value) for value in [*frame[name], frame[name].iloc[-1]]]
        figure.add_scatter(
            x=small(x), y=small(scale.drawn(places)), mode="lines+markers", name=theme.short(name),
            line={"shape": "hv", "color": theme.BLUE, "width": 2.4}, marker={"size": 6},
            text=texts, hovertemplate=f"{theme.short(name)} = %{{text}}<extra></extra>",
            row=row, col=1,
        )  # fmt: skip
        figure.update_yaxes(setting_axis(scale, places, ticks=3, room=0.12), row=row, col=1)
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=1, yref=f"y{row if row > 1 else ''} domain",
            yanchor="bottom", showarrow=False, text=f"<b>{theme.short(name, 40)}</b>",
        )  # fmt: skip
    figure.update_xaxes(range=[0, end / factor], tickformat=axis.get("tickformat"), nticks=7)
    figure.update_xaxes(title=axis["title"], row=len(names), col=1)
    figure.update_layout(margin_t=30)
    return figure
