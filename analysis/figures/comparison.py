"""The interactive figures of a comparison of algorithms or sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from analysis.comparison.shared_budget import score_tables
from analysis.figures.compare import (
    draw_aggregates,
    draw_compared_curves,
    draw_improvement,
    draw_profiles,
)
from analysis.names import metric_label
from analysis.statistics.profiles import performance_profile

if TYPE_CHECKING:
    from analysis.comparison.outcome import Comparison

_STATISTICS = ("iqm",)
"""Of a few runs mean and median say less, and are in the table."""


def comparison_figures(found: Comparison) -> list[go.Figure]:
    """Curves over the shared budget, values with their intervals, profiles, and who is better.

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
        draw_aggregates(aggregates_of(found, mode), metric, scores),
        draw_profiles(profile, metric, mode),
        draw_improvement(found.pairs),
    ]
    parts = [part if isinstance(part, list) else [part] for part in drawn]
    return [figure for part in parts for figure in part if not isinstance(figure, str)]


def aggregates_of(found: Comparison, mode: str) -> pd.DataFrame:
    """Return the summary in the long form of `analysis.statistics.aggregates.aggregate`."""
    summary = found.summary
    frames = [
        pd.DataFrame(
            {
                "algorithm": summary["algorithm"],
                "statistic": statistic,
                "value": summary[statistic],
                "low": summary[f"{statistic}_low"],
                "high": summary[f"{statistic}_high"],
            }
        )
        for statistic in _STATISTICS
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame.attrs.update(confidence=found.confidence, mode=mode)
    return frame
