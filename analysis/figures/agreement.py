"""What off-policy estimators took the trials to be worth, against what they were worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import LEGEND, base_figure, padded, plural, small, value_axis
from analysis.importance.scales import number

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 380


def estimates_and_truth(data: ReportData) -> list[go.Figure] | str | None:
    """Draw the trials by each estimate and by their return in the environment, where both are."""
    drawn, reasons = [], []
    for name, frame in data.agreements.items():
        if isinstance(frame, str):
            reasons.append(frame)
        else:
            drawn.append(draw_agreement(frame, name))
    return drawn or (reasons[0] if reasons else None)


def draw_agreement(frame: pd.DataFrame, name: str) -> go.Figure:
    """Draw the trials, the one that the estimate would choose, and the one that is truly best.

    Args:
        frame: Of `analysis.agreement_frame`.
        name: Of the estimator.
    """
    attrs = frame.attrs
    x, y = attrs["estimate"], attrs["truth"]
    best = int(frame["regret"].argmin())  # the first row from which on there is none
    figure = base_figure(
        _HEIGHT,
        title=f"By {name}",
        alt=f"{plural(len(frame), 'trial')} by {x} and {y}.",
        caption=_caption(frame),
    )
    others = frame.drop(index=sorted({0, best}))
    marks = (
        (others, "others", {"symbol": "circle-open", "size": 8, "color": theme.GREY}),
        (
            frame[best : best + 1],
            "truly best",
            {"symbol": "diamond", "size": 11, "color": theme.ORANGE},
        ),
        (frame[:1], "chosen by the estimate", {"symbol": "star", "size": 13, "color": theme.BLUE}),
    )
    for rows, role, marker in marks:
        texts = [
            f"<b>{theme.plain(str(row['trial_id']))}</b><br>estimate {number(row[x])}"
            f"<br>return {number(row[y])}"
            for row in rows.to_dict("records")
        ]
        figure.add_scatter(
            x=small(rows[x]), y=small(rows[y]), mode="markers", marker=marker, text=texts,
            name=role, hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis={**value_axis(x), "range": padded(frame[x].to_numpy(float), 0.08), "zeroline": False},
        yaxis={**value_axis(y), "range": padded(frame[y].to_numpy(float), 0.08), "zeroline": False},
        **LEGEND,
    )
    return figure


def _caption(frame: pd.DataFrame) -> str:
    attrs = frame.attrs
    regret = number(frame["regret"].iloc[0])
    return (
        f"Spearman's rank correlation {attrs['rank_correlation']:.2f}, 95 % interval "
        f"{attrs['low']:.2f} to {attrs['high']:.2f} (bootstrap over {len(frame)} trials). The "
        f"value of the trial that the estimate chooses is {regret} below the best one: "
        f"{attrs['relative_regret']:.0%} of the range of all."
    )
