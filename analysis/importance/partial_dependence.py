"""How the result changes with one or two settings, the others averaged out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.importance.scales import Scale, label
from analysis.importance.surrogate import FORESTS, Surrogate, chosen, fit_surrogate
from analysis.importance.surrogate_data import Budget
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source

_POINTS = {1: 41, 2: 21}
_ENDS = (0.1, 0.9)


def partial_dependence_frame(
    results: Source | Surrogate,
    settings: str | Sequence[str],
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    points: int | None = None,
    at_budget: Budget = None,
    forests: int = FORESTS,
) -> pd.DataFrame:
    """Return the metric that the forest expects at values of one or two settings.

    It averages over all other settings, evenly over their ranges (fANOVA's marginal): a search that
    tried good values together does not bend the curve. A forest is a staircase: small steps mean
    nothing, and beyond what was tried it knows nothing.

    Args:
        results: See `importance_frame`.
        settings: One or two of the settings that vary, as `importance_frame` names them.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`: noted in `attrs`.
        points: Along a number's range, evenly on its scale (default: 41 of one setting, 21 x 21 of
            two). A choice has its levels.
        at_budget: See `importance_frame`.
        forests: How many forests of other seeds.

    Returns:
        A row per point: a column per setting with its value (None for trials without it), `mean`
        (of the metric, over all trees), `low` and `high` (between which 80 % of the trees lie;
        each learned from other trials). `attrs` as of `importance_frame`, and `settings` and
        `scales`: `"linear"`, `"log"`, `"one_minus"` or `"category"` each.

    Raises:
        ResultsError: See `importance_frame`; or a setting does not vary, or there are not one or
            two different ones.
    """
    names = [settings] if isinstance(settings, str) else list(settings)
    learned = fit_surrogate(results, metric, mode, at_budget=at_budget, forests=forests)
    places = chosen(learned.data, names)
    if len(places) not in _POINTS or len(set(places)) < len(places):
        raise ResultsError(f"partial dependence takes one or two different settings, not {names}")
    count = _POINTS[len(places)] if points is None else points
    if count < 2:
        raise ResultsError(f"points must be at least 2, not {points}")
    grids = [_grid(learned, place, count) for place in places]
    trees = [tree for forest in learned.trees for tree in forest]
    if len(places) == 1:
        curves = np.stack([tree.curve(places[0], grids[0][0]) for tree in trees])
    else:
        (a, b), (along_a, along_b) = places, (grids[0][0], grids[1][0])
        curves = np.stack([tree.surface(a, b, along_a, along_b).ravel() for tree in trees])
    low, high = np.quantile(curves, _ENDS, axis=0)
    index = np.indices([len(values) for _, values in grids]).reshape(len(grids), -1)
    columns: dict[str, Any] = {}
    for place, (_, values), rows in zip(places, grids, index, strict=True):
        shown = pd.Series([values[row] for row in rows])
        columns[learned.data.settings[place]] = shown
    frame = pd.DataFrame({**columns, "mean": curves.mean(axis=0), "low": low, "high": high})
    chosen_scales = [learned.data.scales[place].kind for place in places]
    frame.attrs.update(learned.attrs, settings=list(columns), scales=chosen_scales)
    return frame


def _grid(learned: Surrogate, place: int, count: int) -> tuple[np.ndarray, list[Any]]:
    """Return points on a setting's axis and the values that they stand for."""
    axis, scale = learned.data.axes[place], learned.data.scales[place]
    raw = learned.data.raw.iloc[:, place]
    if axis.levels:
        by_label = {label(value): value for value in raw}
        return np.array(axis.levels), [by_label[scale.levels[int(level)]] for level in axis.levels]
    points = np.linspace(axis.low, axis.high, count)
    values: list[Any] = [float(value) for value in _values(scale, points)]
    if axis.absent is not None:
        points, values = np.append(points, axis.absent), [*values, None]
    return points, values


def _values(scale: Scale, positions: np.ndarray) -> np.ndarray:
    """Return the inverse of `Scale.positions` for numbers."""
    if scale.kind == "log":
        return np.asarray(10.0**positions)
    return np.asarray(1 - 10.0**-positions) if scale.kind == "one_minus" else positions
