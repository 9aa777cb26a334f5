"""What each of several policies returned, in the best trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from analysis.curves.run_curves import trial_curve
from analysis.curves.thinning import thin
from analysis.figures import theme
from analysis.figures.common import LEGEND, base_figure, budget_axis, small, value_axis
from analysis.names import RETURN

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_HEIGHT = 360
_DASHES = ("solid", "dash", "dot", "dashdot")


def returns_by_policy(data: ReportData) -> go.Figure | None:
    """Draw a curve for each policy; None where there is one policy."""
    if data.winner is None or not data.returns_of_policies:
        return None
    curves = {
        policy: trial_curve(data.winner, metric, data.steps_axis)
        for policy, metric in data.returns_of_policies.items()
    }
    curves = {policy: curve for policy, curve in curves.items() if len(curve.steps)}
    if not curves:
        return None
    divisor, axis = budget_axis(data.steps_axis, max(curve.end for curve in curves.values()))
    axis["range"] = [0.0, max(curve.end for curve in curves.values()) / divisor * 1.01]
    names = ", ".join(curves)
    figure = base_figure(
        _HEIGHT,
        alt=f"Returns of the policies {names} over the budget, in trial {data.winner.trial_id}.",
        caption=f"Best trial, {data.winner.trial_id}: the mean return of the agents of each "
        "policy.",
    )
    for number, (policy, curve) in enumerate(curves.items()):
        x, y = thin(curve.steps / divisor, curve.values, 200)
        color = theme.PALETTE[number % len(theme.PALETTE)]
        figure.add_scatter(
            x=small(x), y=small(y), name=theme.short(policy),
            mode="lines+markers" if len(x) == 1 else "lines",
            line={"color": color, "width": 2.2, "dash": _DASHES[number % len(_DASHES)]},
            hovertemplate=f"<b>{theme.plain(policy)}</b>: %{{y:.4~g}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(xaxis=axis, yaxis=value_axis(RETURN), **LEGEND)
    return figure
