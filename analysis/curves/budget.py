"""How much budget a run needs: until a threshold is reached, and the area under its curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.curves.run_curves import RunCurve, run_curves
from analysis.names import ENV_STEPS, ITERATION, SECONDS, TRAINED, sign_of
from analysis.results.load import load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from analysis.statistics.censored import Reached, reached_summary

if TYPE_CHECKING:
    from ray.tune import ResultGrid

BUDGETS = (ENV_STEPS, TRAINED, SECONDS, ITERATION)
"""What a budget may be counted in: environment steps, steps trained on, seconds, iterations."""
_ROUNDING = 1e-9

Run = tuple[RunCurve, bool]


def budget_to_threshold(
    steps: npt.ArrayLike,
    values: npt.ArrayLike,
    threshold: float,
    mode: str = "max",
    *,
    window: int = 1,
    stays: bool = False,
) -> float:
    """Return the budget of the first report at which a curve has reached a threshold.

    Nothing is interpolated: between two reports nobody knows.

    Args:
        steps: `[reports]`: the budget at each report, ascending.
        values: `[reports]`: the metric there, finite.
        threshold: What is to be reached; equal to it is enough.
        mode: `"max"`: at least the threshold; `"min"`: at most.
        window: The mean of so many reports, the latest among them, must reach it; there are none
            for the first `window - 1`.
        stays: The first report from which on all are as good as the threshold.

    Returns:
        Infinity if the curve never got there: the run is censored at its end.

    Raises:
        ResultsError: `steps` do not ascend, a value is not finite, or an argument makes no sense.

    Example:
        >>> budget_to_threshold([10, 20, 30, 40], [1, 5, 3, 6], 5)
        20.0
        >>> budget_to_threshold([10, 20, 30, 40], [1, 5, 3, 6], 5, stays=True)
        40.0
        >>> budget_to_threshold([10, 20, 30, 40], [1, 5, 3, 6], 4, window=2)
        30.0
    """
    x, y = _checked(steps, values)
    if not np.isfinite(threshold):
        raise ResultsError(f"threshold must be a finite number, not {threshold}")
    if window < 1:
        raise ResultsError(f"window must be at least 1 report, not {window}")
    if len(y) < window:
        return float("inf")
    smooth = np.lib.stride_tricks.sliding_window_view(y, window).mean(axis=1)
    # A curve that lies at the threshold has reached it: rounding of the mean must not decide.
    sign, slack = sign_of(mode), _ROUNDING * abs(threshold) if window > 1 else 0.0
    good = sign * smooth >= sign * threshold - slack
    if stays:
        failures = np.flatnonzero(~good)
        first = failures[-1] + 1 if len(failures) else 0
    else:
        first = int(np.argmax(good)) if good.any() else len(good)
    return float(x[window - 1 + first]) if first < len(good) else float("inf")


def area_under_curve(
    steps: npt.ArrayLike,
    values: npt.ArrayLike,
    budget: float | None = None,
    *,
    method: str = "step",
) -> float:
    """Return the mean of a curve over its budget: the area under it, divided by the budget.

    So it has the unit of the values, and runs with a shared budget can be compared by it. Before
    its first report, a curve counts with the first value.

    Args:
        steps: `[reports]`: the budget at each report, ascending, not negative.
        values: `[reports]`: the metric there, finite.
        budget: The end of the area; by default at the last report. At most that: what was not
            trained is not known.
        method: `"step"`: a value holds until the next report, as the policy in hand
            is the one last reported; `"trapezoid"`: straight lines between reports.

    Raises:
        ResultsError: `steps` do not ascend, a value is not finite, the budget is beyond the last
            report or not positive, or the method is unknown.

    Example:
        >>> area_under_curve([10, 20], [0, 4])
        0.0
        >>> area_under_curve([10, 20], [0, 4], method="trapezoid")
        1.0
    """
    x, y = _checked(steps, values)
    if method not in ("step", "trapezoid"):
        raise ResultsError(f"method must be 'step' or 'trapezoid', not {method!r}")
    if not len(x):
        raise ResultsError("a curve without a report has no area")
    end = float(x[-1]) if budget is None else float(budget)
    if not 0 < end <= x[-1] or x[0] < 0:
        raise ResultsError(
            f"budget must be above 0 and at most that of the last report, {x[-1]:g}; not {end:g}"
        )
    inside = x[x < end]
    edges = np.concatenate([[0.0], inside, [end]])
    if method == "trapezoid":
        from scipy.integrate import trapezoid

        return float(trapezoid(np.interp(edges, x, y), edges) / end)
    held = np.concatenate([[y[0]], y[: len(inside)]])  # [edges - 1]: the value after each edge
    return float(held @ np.diff(edges) / end)


def budget_to_threshold_frame(
    results: ResultGrid | Sweep | str | Path,
    metric: str,
    threshold: float,
    mode: str = "max",
    *,
    x: str = ENV_STEPS,
    window: int = 1,
    stays: bool = False,
) -> pd.DataFrame:
    """Return the budget at which each run of a sweep reached a threshold.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        metric: The flat name of the metric.
        threshold: What is to be reached.
        mode: `"max"` or `"min"`.
        x: What the budget is counted in, one of `BUDGETS`.
        window: See `budget_to_threshold`.
        stays: See `budget_to_threshold`.

    Returns:
        One row per run, which is a trial or one seed of a trial of several: `trial_id`, `seed`,
        `reached`, `budget` (infinity if it was not reached), `end` (the budget of the last
        report, where such a run is censored; NaN without a finite value) and `failed` (or
        diverged: such a run counts as one that never gets there). `attrs["summary"]` is their
        `Reached`, with `attrs` of the arguments beside it.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported `metric` or `x`, or an
            argument makes no sense.
    """
    rows = []
    for curve, failed in _curves(results, metric, x):
        budget = budget_to_threshold(
            curve.steps, curve.values, threshold, mode, window=window, stays=stays
        )
        reached = np.isfinite(budget)
        rows.append(_row(curve, reached=reached, budget=budget, end=curve.end, failed=failed))
    frame = pd.DataFrame(rows).astype({"seed": "Int64"})
    summary: Reached = reached_summary(frame["budget"], frame["end"], failed=frame["failed"])
    frame.attrs.update(metric=metric, mode=mode, threshold=threshold, x=x, summary=summary)
    return frame


def area_under_curve_frame(
    results: ResultGrid | Sweep | str | Path,
    metric: str,
    budget: float | None = None,
    *,
    x: str = ENV_STEPS,
    method: str = "step",
) -> pd.DataFrame:
    """Return the mean of each run's curve over a budget that all of them share.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        metric: The flat name of the metric.
        budget: The budget; by default the largest that every run reached which did not fail.
        x: What the budget is counted in, one of `BUDGETS`.
        method: See `area_under_curve`.

    Returns:
        One row per run, which is a trial or one seed of a trial of several: `trial_id`, `seed`,
        `area` (the mean over the budget; NaN of runs that ended before it) and `end` (the
        budget of the last report) and `failed` (or diverged). `attrs` holds `metric`, `x`
        and `budget`.

    Raises:
        ResultsError: The folder holds no sweep, or no trial reported `metric` or `x`.
    """
    curves = _curves(results, metric, x)
    ends = [curve.end for curve, failed in curves if not failed]
    # Where all failed, the one that came least far counts.
    ends = ends or [curve.end for curve, _ in curves if len(curve.steps)]
    shared = min(ends) if budget is None else budget
    rows = []
    for curve, failed in curves:
        long = curve.end >= shared
        area = area_under_curve(curve.steps, curve.values, shared, method=method) if long else None
        value = float("nan") if area is None else area
        rows.append(_row(curve, area=value, end=curve.end, failed=failed))
    frame = pd.DataFrame(rows).astype({"seed": "Int64"})
    frame.attrs.update(metric=metric, x=x, budget=shared)
    return frame


def check_budget_name(x: str) -> None:
    """Refuse what a budget cannot be counted in."""
    if x not in BUDGETS:
        raise ResultsError(f"a budget is counted in one of {', '.join(BUDGETS)}, not {x!r}")


def _curves(results: ResultGrid | Sweep | str | Path, metric: str, x: str) -> list[Run]:
    """Return all runs, and whether each failed or diverged."""
    check_budget_name(x)
    sweep = load_sweep(results)
    sweep.require_metric(metric)
    sweep.require_metric(x)
    found = [
        (curve, trial.status == "ERROR" or curve.diverged)
        for trial in sweep.trials
        if len(trial.frame)
        for curve in run_curves(trial, metric, x)
    ]
    if not any(len(curve.steps) for curve, _ in found):
        raise ResultsError(f"{sweep.path}: every value of {metric!r} is NaN or infinite")
    return found


def _row(curve: RunCurve, **values: Any) -> dict[str, Any]:
    return {"trial_id": curve.trial_id, "seed": curve.seed, **values}


def _checked(steps: npt.ArrayLike, values: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ResultsError(
            f"steps and values must be of one length, not of shapes {x.shape} and {y.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ResultsError("steps and values must be finite")
    if (np.diff(x) < 0).any():
        raise ResultsError("steps must ascend")
    return x, y
