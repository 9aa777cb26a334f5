"""Several objectives: the trials of which no other is better in all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames.frames import varying
from analysis.names import ENV_STEPS, metric_label, sign_of
from analysis.plots.curves import new_figure, save
from analysis.results.records import Sweep, TrialRecord, load_sweep
from analysis.results.rows import ResultsError, flatten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from ray.tune import ResultGrid

Objectives = Sequence[tuple[str, str]]
"""Metric and mode ("max" or "min") of each objective."""


def pareto_front(
    results: ResultGrid | Sweep | str | Path, objectives: Objectives, *, whole: bool = False
) -> pd.DataFrame:
    """The Pareto-optimal trials: no other is as good in every objective and better in one.

    A trial counts with its last result, as in the search, if it ended and all objectives are finite
    there.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.
        objectives: Metric and mode of each, two or more.
        whole: Keep the other trials that count, too.

    Returns:
        A frame with ``trial_id``, ``optimal``, a column per metric,
        ``num_env_steps_sampled_lifetime`` and a ``config/...`` column per hyperparameter that
        varies: the optimal trials first, each part from the best in the first objective on.
        ``attrs`` holds ``objectives`` and ``sweep``.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported one of the metrics, a mode is
            unknown, or there are fewer than two objectives.
    """
    sweep = load_sweep(results)
    if len(objectives) < 2:
        raise ResultsError(f"a Pareto front takes two objectives or more, not {len(objectives)}")
    signs = np.array([sign_of(mode) for _, mode in objectives])
    metrics = [metric for metric, _ in objectives]
    for metric in metrics:
        sweep.require_metric(metric)
    names = varying(sweep.trials)
    rows = [row for trial in sweep.trials if (row := _row(trial, metrics, names)) is not None]
    columns = dict.fromkeys(["trial_id", "optimal", *metrics, ENV_STEPS, *names])  # each once
    frame = pd.DataFrame(rows, columns=list(columns))
    frame["optimal"] = optimal_rows(signs * frame[metrics].to_numpy(dtype=float))
    order = frame.assign(_first=-signs[0] * frame[metrics[0]].astype(float))
    order = order.sort_values(["optimal", "_first"], ascending=[False, True], kind="stable")
    frame = frame.loc[order.index].reset_index(drop=True)
    if not whole:
        frame = frame[frame["optimal"]].reset_index(drop=True)
    frame.attrs.update(objectives=list(objectives), sweep=sweep.name)
    return frame


def plot_pareto(
    results: ResultGrid | Sweep | str | Path, objectives: Objectives, out: str | Path = "pareto.png"
) -> Path:
    """Draws the trials by two objectives, with the front and what it dominates.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.
        objectives: Metric and mode of the two.
        out: The file to write; its ending says the format (``.png``, ``.pdf``, ``.svg``).

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: See `pareto_front`; or there are not two objectives, or no trial with both.
    """
    if len(objectives) != 2:
        raise ResultsError(f"only two objectives can be drawn, not {len(objectives)}")
    frame = pareto_front(results, objectives, whole=True)
    if frame.empty:
        raise ResultsError(f"{frame.attrs['sweep']}: no trial ended with finite objectives")
    title = f"{frame.attrs['sweep']}: {len(frame)} trials"
    return save(draw_front(frame, objectives, title), out)


def draw_front(frame: pd.DataFrame, objectives: Objectives, title: str) -> Figure:
    """The figure of `plot_pareto`.

    Args:
        frame: ``trial_id``, ``optimal`` and a column for each of the two objectives.
        objectives: Metric and mode of what is across and up.
        title: Of the figure.
    """
    import matplotlib.ticker as tickers

    (x, x_mode), (y, y_mode) = objectives
    front, rest = frame[frame["optimal"]], frame[~frame["optimal"]]
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    axes.scatter(rest[x], rest[y], s=26, color="0.72", label=f"dominated ({len(rest)})", zorder=2)
    points = front.sort_values(x)
    # The edge of what the front dominates: at each x the best y among trials at least as good in x.
    where: Any = "pre" if x_mode == "max" else "post"
    axes.step(points[x], points[y], where=where, color="#0b6bcb", lw=1.2, alpha=0.6, zorder=1)
    axes.scatter(
        front[x], front[y], s=44, color="#0b6bcb", label=f"Pareto-optimal ({len(front)})", zorder=3
    )
    _name_points(axes, points[::-1] if y_mode == "max" else points, x, y)
    axes.set_xlabel(f"{metric_label(x)} ({_better(x_mode)})")
    axes.set_ylabel(f"{metric_label(y)} ({_better(y_mode)})")
    axes.set_title(title, fontsize="medium", loc="left")
    if frame[x].max() >= 10_000:
        axes.xaxis.set_major_formatter(tickers.EngFormatter(sep=""))
    axes.grid(True, color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize="small")
    return figure


def _name_points(axes: Axes, points: pd.DataFrame, x: str, y: str) -> None:
    """Writes the trials beside their points, from the first on; where there is no room, nothing."""
    axes.autoscale_view()
    written: list[np.ndarray] = []
    for row in points.to_dict("records"):
        place = axes.transLimits.transform((row[x], row[y]))  # in parts of the axes
        if any((np.abs(place - other) < (0.25, 0.045)).all() for other in written):
            continue
        written.append(place)
        axes.annotate(
            str(row["trial_id"]), (row[x], row[y]), (5, 5), textcoords="offset points",
            fontsize="x-small", color="0.35",
        )  # fmt: skip


def _row(trial: TrialRecord, metrics: list[str], names: list[str]) -> dict[str, Any] | None:
    """The trial's line, or None if it does not count."""
    if trial.status != "TERMINATED" or not len(trial.frame):
        return None
    last = trial.frame.iloc[-1]
    values: list[float] = []
    for metric in metrics:
        value: Any = last.get(metric)
        if not isinstance(value, Number) or not math.isfinite(value):  # type: ignore[arg-type]
            return None
        values.append(float(value))  # type: ignore[arg-type]
    config = flatten(trial.config, "config/")
    return {
        "trial_id": trial.trial_id,
        "optimal": False,
        **dict(zip(metrics, values, strict=True)),
        ENV_STEPS: last.get(ENV_STEPS),
        **{name: config.get(name) for name in names},
    }


def optimal_rows(values: np.ndarray) -> np.ndarray:
    """Which rows no other dominates; ``values`` is ``[rows, objectives]``, the more the better."""
    at_least = (values[:, None] >= values[None]).all(axis=2)  # [i, j]: i is as good as j
    better = (values[:, None] > values[None]).any(axis=2)
    return np.logical_not((at_least & better).any(axis=0))


def _better(mode: str) -> str:
    return "higher is better" if mode == "max" else "lower is better"
