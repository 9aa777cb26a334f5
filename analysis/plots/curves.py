"""Learning curves as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from analysis.curves.run_curves import trial_curve
from analysis.curves.thinning import Curve, has_full_budget, median_curve
from analysis.home import expanded
from analysis.names import ENV_STEPS, ITERATION, finite, metric_label
from analysis.ranking.leaderboard import ranked
from analysis.results.load import load_sweep
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError
from analysis.statistics import interval_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from ray.tune import ResultGrid

Band = tuple[np.ndarray, np.ndarray, np.ndarray, str]
"""Steps, lower and upper end, and what it is."""

_LONGEST_LABEL = 28


def plot_learning_curves(
    results: ResultGrid | Sweep | str | Path,
    metric: str = "episode_return_mean",
    out: str | Path = "learning_curves.png",
    *,
    mode: str = "max",
    x: str = ENV_STEPS,
) -> Path:
    """Draw the metric of every trial over training: the best one and the median stand out.

    The median at a step is that of the trials that got so far, three at least, and ends with the
    first that was not stopped early. A trial of several seeds has its interquartile mean drawn, the
    best one also the interval.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        metric: The flat name of the metric on the y axis.
        out: The file to write; its ending says the format (`.png`, `.pdf`, `.svg`).
        mode: `"max"` or `"min"`: what is best.
        x: The x axis: `num_env_steps_sampled_lifetime`, `training_iteration` or
            `time_total_s`. Where no trial reported it, the training iteration is used.

    Returns:
        The absolute path of the file.

    Raises:
        ResultsError: No trial reported a finite value of `metric`, or the file cannot be written.
    """
    sweep = load_sweep(results)
    order = [trial for trial, score in ranked(sweep, metric, mode) if score.found]
    if not order:
        raise ResultsError(f"{sweep.path}: every value of {metric!r} is NaN or infinite")
    if not any(x in trial.frame for trial in order):
        x = ITERATION
    drawn = [(trial, curve) for trial in order if len((curve := _curve(trial, x, metric))[0])]
    curves = [curve for _, curve in drawn]
    budget = ENV_STEPS if any(ENV_STEPS in trial.frame for trial in order) else x
    reached = [finite(trial.frame.get(budget)).max() for trial, _ in drawn]
    middle = median_curve(curves, has_full_budget(reached))

    figure = new_figure(8.0, 4.8)
    axes = figure.subplots()
    _draw(axes, curves, middle, order[0].trial_id, _band(order[0], x, metric))
    axes.set_xlabel(metric_label(x))
    axes.set_ylabel(metric_label(metric))
    count = f"{len(order)} trial" + ("s" if len(order) > 1 else "")
    axes.set_title(f"{sweep.name}: {count}", fontsize="medium", loc="left")

    return save(figure, out)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches; without pyplot, which keeps state for all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def dress(axes: Axes, *, grid: Literal["both", "x"] = "both") -> None:
    """Give axes a pale grid behind what is drawn, and no frame above and to the right."""
    axes.grid(True, axis=grid, color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def shortened(name: object) -> str:
    """Cut a name off where it would not fit beside the axes."""
    text = str(name)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def save(figure: Figure, out: str | Path) -> Path:
    """Write a figure; its folder is made. Raises `ResultsError` where that cannot be done."""
    target = expanded(out).resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    except (OSError, ValueError) as error:  # ValueError: an ending that names no known format
        raise ResultsError(f"{target}: cannot write the plot ({error})") from error
    return target


def _draw(
    axes: Axes, curves: list[Curve], middle: Curve | None, best_id: str, band: Band | None
) -> None:
    from matplotlib.ticker import EngFormatter

    best, others = curves[0], curves[1:]
    for number, (steps, values) in enumerate(others):
        marker = "o" if len(steps) == 1 else None
        label = "other trials" if number == 0 else None
        axes.plot(steps, values, color="0.72", lw=1.0, marker=marker, ms=3, label=label, zorder=1)
    if middle is not None:
        axes.plot(*middle, color="#1b1b1b", lw=2.0, ls="--", label="median", zorder=2)
    if band is not None:
        axes.fill_between(*band[:3], color="#0b6bcb", alpha=0.18, lw=0, label=band[3], zorder=2)
    marker = "o" if len(best[0]) == 1 else None
    axes.plot(*best, color="#0b6bcb", lw=2.4, marker=marker, label=f"best: {best_id}", zorder=3)
    dress(axes)
    axes.margins(x=0.01)
    if max(steps.max() for steps, _ in curves) >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(frameon=False, loc="best", fontsize="small")


def _curve(trial: TrialRecord, x: str, metric: str) -> Curve:
    curve = trial_curve(trial, metric, x)
    return curve.steps, curve.values


def _band(trial: TrialRecord, x: str, metric: str) -> Band | None:
    """Return steps, lower and upper ends of the interval that a trial of several seeds reports."""
    low, high = _curve(trial, x, f"seeds/{metric}/low"), _curve(trial, x, f"seeds/{metric}/high")
    if len(low[0]) < 2 or len(low[0]) != len(high[0]):
        return None
    return *low, high[1], interval_label(int(trial.frame["num_seeds"].iloc[-1]))
