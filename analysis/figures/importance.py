"""How much each setting, and each pair of settings, mattered: bars with their spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.figures import theme
from analysis.figures.common import base_figure, chosen_settings, plural, small
from analysis.importance.scales import number
from analysis.names import setting_label

if TYPE_CHECKING:
    from analysis.overview.overview import ReportData

_ROW = 46
_MOST = 12
_MOST_PAIRS = 6
_NAME = 36
"""Characters of a name, beside its numbers: so many fit on a phone."""
_MEASURE = {
    "fanova": "share of the variance of the value between trials",
    "permutation": "loss of fit when the setting is shuffled",
}


def importance_bars(data: ReportData) -> go.Figure | str | None:
    """Return the importance of each varied setting."""
    if not chosen_settings(data):
        return None
    return data.importance if isinstance(data.importance, str) else draw_importance(data.importance)


def interactions_bars(data: ReportData) -> go.Figure | str | None:
    """Return the pairs of settings whose effect is more than the sum of both."""
    if len(chosen_settings(data)) < 2:
        return None
    frame = data.interactions
    return frame if isinstance(frame, str) else draw_interactions(frame)


def draw_importance(frame: pd.DataFrame) -> go.Figure | str:
    """Draw a bar per setting with the spread of its importance.

    Args:
        frame: `setting`, `importance`, `low`, `high`, the most important first, as
            `analysis.importance.importance.importance_frame` gives it.
    """
    if frame.empty:
        return "No setting varies enough to compute its importance."
    method = str(frame["method"].iloc[0]) if "method" in frame else ""
    measure = _MEASURE.get(method, "importance")
    names = [str(name) for name in frame["setting"]]
    caption = f"Importance: {measure}" + (f" ({method})" if method else "") + ". Lines: the spread"
    caption += " over the forests that learned it, not over other sweeps."
    if len(names) > _MOST:
        caption += f" The first {_MOST} of {plural(len(names), 'setting')}."
    caption += _trust(frame)
    return _bars(names, frame, "importance", alt=f"Settings by their {measure}", caption=caption)


def draw_interactions(frame: pd.DataFrame) -> go.Figure | str:
    """Draw a bar per pair of settings.

    Args:
        frame: `setting`, `other`, `interaction` and, if known, `low` and `high`, the
            strongest pair first, as `analysis.importance.importance.interactions_frame` gives it.
    """
    if frame.empty:
        return "No pair of settings has a known interaction."
    names = [_pair(*pair) for pair in zip(frame["setting"], frame["other"], strict=True)]
    return _bars(
        names[:_MOST_PAIRS],
        frame.iloc[:_MOST_PAIRS],
        "interaction",
        alt="Pairs of settings by the strength of their interaction",
        caption="Interaction: the share of the variance that only both settings together explain."
        + _trust(frame),
    )


def _pair(first: str, second: str) -> str:
    """Name a pair of settings in full where there is room."""
    whole = f"{setting_label(first)} × {setting_label(second)}"
    if len(whole) <= _NAME:
        return theme.plain(whole)
    return f"{theme.short(first, 17)} × {theme.short(second, 17)}"


def _trust(frame: pd.DataFrame) -> str:
    """Return how well the forests predict, and what the frame itself warns of."""
    fit, caution = frame.attrs.get("r2"), frame.attrs.get("caution")
    known = isinstance(fit, float) and np.isfinite(fit) and "R²" not in str(caution)
    words = f" R² of trials that the forests did not see: {fit:.2f}." if known else ""
    return words + (f" {caution}" if caution else "")


def _bars(
    names: Sequence[str], frame: pd.DataFrame, column: str, *, alt: str, caption: str
) -> go.Figure:
    """Draw horizontal bars; each name lies above its bar, where it is never cut off."""
    shown = frame.iloc[:_MOST]
    sizes = shown[column].to_numpy(float)
    ends = [
        shown[end].to_numpy(float) if end in shown else np.full(len(shown), np.nan)
        for end in ("low", "high")
    ]
    parts = ", ".join(
        f"{name} {size:.2g}" for name, size in zip(names[:3], sizes[:3], strict=False)
    )
    rows = max(len(shown), 2)  # with less height the axis' title would cover its ticks
    figure = base_figure(_ROW * rows + 46, alt=f"{alt}: {parts}.", caption=caption)
    heights = -np.arange(len(shown), dtype=float)
    figure.add_bar(
        x=small(sizes), y=small(heights), orientation="h", width=0.36,
        marker={"color": [theme.BLUE if n == 0 else theme.GREY for n in range(len(shown))]},
        error_x={"type": "data", "symmetric": False, "thickness": 1.6, "width": 5,
                 "color": theme.ORANGE,
                 "array": small(ends[1] - sizes), "arrayminus": small(sizes - ends[0])},
        hovertext=[_words(*parts) for parts in zip(names, sizes, *ends, strict=False)],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    for name, size, low, high, y in zip(names, sizes, *ends, heights, strict=False):
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=float(y), yshift=19, showarrow=False,
            text=theme.short(name, _NAME) if column == "importance" else name,
        )  # fmt: skip
        figure.add_annotation(
            x=1, xref="paper", xanchor="right", y=float(y), yshift=19, showarrow=False,
            text=f"<b>{size:.2f}</b>" + (f"  {low:.2f}–{high:.2f}" if np.isfinite(low) else ""),
        )  # fmt: skip
    most = float(np.nanmax([*sizes, *ends[1]]))
    least = min(0.0, float(np.nanmin([*sizes, *ends[0]])))
    figure.update_xaxes(range=[least * 1.03, max(most, 1e-9) * 1.03], nticks=6, zeroline=True)
    figure.update_xaxes(title={"text": column}, fixedrange=True)
    figure.update_yaxes(range=[-rows + 0.55, 0.75], visible=False, fixedrange=True)
    return figure


def _words(name: str, size: float, low: float, high: float) -> str:
    spread = f" ({number(low, 3)} to {number(high, 3)})" if np.isfinite(low) else ""
    return f"<b>{name}</b><br>{number(size, 3)}{spread}"
