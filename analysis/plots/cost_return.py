"""Return against cost, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.plots.curves import save
from analysis.plots.fronts import draw_front
from analysis.ranking.cost_return import cost_front

if TYPE_CHECKING:
    from analysis.results.records import Source


def plot_cost_front(
    results: Source | Sequence[Source],
    metric: str = "episode_return_mean",
    mode: str = "max",
    out: str | Path = "cost.png",
    *,
    cost: str = "env_steps",
) -> Path:
    """Draw the trials by cost and metric, with the front.

    Args:
        results: See `cost_front`.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        cost: One of `COSTS`.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `cost_front`; or the file cannot be written.
    """
    frame = cost_front(results, metric, mode, cost=cost, whole=True)
    if "sweep" in frame:
        frame["trial_id"] = frame["sweep"] + "/" + frame["trial_id"]
    return save(draw_front(frame, [(cost, "min"), (metric, mode)], f"{len(frame)} trials"), out)
