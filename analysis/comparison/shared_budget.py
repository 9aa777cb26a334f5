"""Runs at a budget that all of them reached, and scores of several tasks on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.comparison.samples import Sample
from analysis.curves.budget import area_under_curve
from analysis.curves.run_curves import RunCurve
from analysis.names import END, ENV_STEPS, ITERATION, TRAINED
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from analysis.statistics import normalise

Samples = Mapping[str, Mapping[str, Sample]]
"""By contender and task."""

Reference = Mapping[str, tuple[float, float]]
"""By task, the scores that count as 0 and as 1."""

POINTS = 50


class NoSharedBudget(ResultsError):
    """A run had not reported by the largest budget that all runs reached."""


@dataclass(frozen=True)
class Task:
    """A task of a comparison.

    Attributes:
        name: The environment.
        budget: What all compared runs on it had.
        low: The score that counts as 0; NaN where scores are as reported.
        high: The score that counts as 1; NaN where scores are as reported.
    """

    name: str
    budget: float
    low: float = math.nan
    high: float = math.nan

    @property
    def scaled(self) -> bool:
        """Whether its scores are normalised."""
        return math.isfinite(self.low)

    def scale(self, values: np.ndarray) -> np.ndarray:
        """Return scores as they are compared, of any shape."""
        if not self.scaled:
            return values
        return normalise(values.reshape(-1), self.low, self.high).reshape(values.shape)


def axes_of(sweeps: Iterable[Sweep]) -> list[str]:
    """Return what a budget of all trials may be counted in, the fairest first.

    Environment steps; steps trained on, where some sample none (they learn from data); iterations,
    whatever each of them takes; at last the end of each run's training, which all runs share.
    """
    frames = [trial.frame for sweep in sweeps for trial in sweep.trials if len(trial.frame)]
    counted = [x for x in (ENV_STEPS, TRAINED) if all(x in frame for frame in frames)]
    return [*counted[:1], ITERATION, END]


def shared_tasks(
    samples: Samples, mode: str, budget: float | None, reference: Reference | None
) -> list[Task]:
    """Return the tasks, each with its budget and scale.

    Args:
        samples: All of the same tasks.
        mode: `"max"` or `"min"`.
        budget: The budget; by default the largest that every run on the task reached.
        reference: The scores, by task, that count as 0 and as 1. Without it, several tasks are
            normalised by the worst and the best compared run of each, and one is left as it is.

    Raises:
        NoSharedBudget: A run had not reported by the largest budget that all reached.
        ResultsError: A run did not reach the given budget or had not reported by then, or a task
            cannot be normalised.
    """
    names = list(next(iter(samples.values())))
    for name in reference or ():
        if name not in names:
            raise ResultsError(f"reference: {name!r} is no compared task: {', '.join(names)}")
    tasks = []
    for name in names:
        runs = [(label, run) for label in samples for run in samples[label][name].runs]
        shared = min(run.end for _, run in runs) if budget is None else budget
        for label, run in runs:
            error = NoSharedBudget if budget is None else ResultsError
            _check_within(label, run, shared, error)
        task = Task(name, shared)
        if len(names) > 1 or reference:
            values = np.array([run.at(shared) for _, run in runs])
            task = Task(name, shared, *_bounds(name, values, mode, reference))
        tasks.append(task)
    return tasks


def runs_frame(samples: Samples, tasks: list[Task]) -> pd.DataFrame:
    """Return a row per run: `algorithm`, `task`, `unit`, `trial_id`, `seed`, what it came to.

    `value` is that at the budget, `score` as it is compared, `area` the mean of the curve, of
    straight lines between reports, over the budget on the scale of the scores, `seconds` the
    training time at the budget, `end` the budget of the run's last report.
    """
    rows = []
    for label, of_tasks in samples.items():
        for task in tasks:
            sample = of_tasks[task.name]
            for run in sample.runs:
                value = run.at(task.budget)
                scores = task.scale(run.values)
                area = area_under_curve(run.steps, scores, task.budget, method="trapezoid")
                rows.append(
                    {
                        "algorithm": label,
                        "task": task.name,
                        "unit": sample.unit,
                        "trial_id": run.trial_id,
                        "seed": run.seed,
                        "value": value,
                        "score": float(task.scale(np.array([value]))[0]),
                        "area": area,
                        "seconds": run.seconds_at(task.budget),
                        "end": run.end,
                    }
                )
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def score_tables(runs: pd.DataFrame, column: str = "score") -> dict[str, np.ndarray]:
    """Return `[runs, tasks]` by algorithm: of each task as many runs as the fewest of any.

    The tables of the statistics are rectangular; the first runs of each task are taken.
    """
    tables = {}
    for label, rows in runs.groupby("algorithm", sort=False):
        columns = [part[column].to_numpy(float) for _, part in rows.groupby("task", sort=False)]
        fewest = min(len(values) for values in columns)
        tables[str(label)] = np.stack([values[:fewest] for values in columns], axis=1)
    return tables


def curve_tables(samples: Samples, tasks: list[Task]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return scores along the budget: shares of it, `[points]`, and `[runs, tasks, points]` each.

    NaN before a run's first report.
    """
    shares = np.arange(1, POINTS + 1) / POINTS
    tables = {}
    for label, of_tasks in samples.items():
        fewest = min(len(sample.runs) for sample in of_tasks.values())
        cube = [
            [
                task.scale(np.array([run.at(share * task.budget) for share in shares]))
                for run in of_tasks[task.name].runs[:fewest]
            ]
            for task in tasks
        ]
        tables[label] = np.moveaxis(np.array(cube), 0, 1)
    return shares, tables


def _check_within(label: str, run: RunCurve, budget: float, early: type[ResultsError]) -> None:
    if run.end < budget:
        raise ResultsError(
            f"budget {budget:g}: run {run.name} of {label} ended at {run.end:g}; omit it for the "
            "largest that all runs reached"
        )
    if math.isnan(run.at(budget)) or budget <= 0:
        raise early(
            f"budget {budget:g}: run {run.name} of {label} reported first at {run.steps[0]:g}"
        )


def _bounds(
    task: str, values: np.ndarray, mode: str, reference: Reference | None
) -> tuple[float, float]:
    if reference is None:
        worst, best = float(values.min()), float(values.max())
        if worst == best:
            raise ResultsError(
                f"{task}: all runs have the value {worst:g}, so there is no scale beside other "
                "tasks; give reference scores, or compare this task alone"
            )
        return (worst, best) if mode == "max" else (best, worst)
    if task not in reference:
        raise ResultsError(f"reference: scores of {task} are missing; every task needs them")
    low, high = (float(score) for score in reference[task])
    upwards = high > low if mode == "max" else high < low
    if not (math.isfinite(low) and math.isfinite(high) and upwards):
        order = "below" if mode == "max" else "above"
        raise ResultsError(
            f"reference of {task}: {low:g}, {high:g}: the score that counts as 0 must lie {order} "
            f"the one that counts as 1 (mode {mode})"
        )
    return low, high
