"""Algorithms or sweeps side by side over a budget that they share, with a verdict in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.comparison.contenders import contenders, tasks_of
from analysis.comparison.outcome import Comparison
from analysis.comparison.pairs import RESAMPLES, compare_pairs
from analysis.comparison.samples import choose_samples, final_folders, possible_samples
from analysis.comparison.shared_budget import (
    NoSharedBudget,
    Reference,
    Samples,
    Task,
    axes_of,
    curve_tables,
    runs_frame,
    score_tables,
    shared_tasks,
)
from analysis.comparison.verdict import cautions, handicap, notes, unshared_lines, verdict_lines
from analysis.curves.budget import budget_to_threshold, check_budget_name
from analysis.frames.cost import cost_frame
from analysis.names import END, ITERATION, sign_of
from analysis.results.load import load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from analysis.statistics import aggregate, aggregate_curves
from analysis.statistics.censored import reached_summary

if TYPE_CHECKING:
    from analysis.comparison.contenders import Sources


def compare(
    sources: Sources,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    budget: float | None = None,
    threshold: float | None = None,
    window: int = 1,
    stays: bool = False,
    unit: str = "auto",
    x: str | None = None,
    reference: Reference | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare algorithms or sweeps.

    Every run counts with its value at a budget that all runs on its task reached, on the straight
    line between its reports before and after. By which runs a contender is judged: see
    `analysis.comparison.samples`. A contender with several environments has several tasks, whose
    scores are normalised.

    Args:
        sources: Sweeps by label; or a sequence of sweeps or texts `label=folder`, in which a
            folder of sweeps stands for those in it. The same label on several environments is one
            contender on several tasks.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        budget: The budget in units of `x`; by default the largest that every run on a task reached.
        threshold: A value of the metric: how much budget each needs to reach it. One task only.
        window: See `analysis.budget_to_threshold`.
        stays: See `analysis.budget_to_threshold`; what came after the budget does not count.
        unit: `"held-out"`, `"best"`, `"trials"` or `"auto"`.
        x: What the budget is counted in, one of `analysis.curves.budget.BUDGETS`. By default the
            first that all runs share: environment steps (steps trained on, where some sample
            none), iterations, else the end of each run's training; `notes` say which, and why.
        reference: The scores, by task, that count as 0 and as 1. By default several tasks are
            normalised by the worst and the best compared run of each.
        confidence: The level of the intervals, and 1 less the level of the tests.
        resamples: How many samples the bootstraps draw.
        seed: The seed of the bootstraps and permutations: the same runs give the same comparison.

    Raises:
        ResultsError: There are fewer than two contenders or they share no task, one cannot be
            judged as asked, or a run did not reach the budget.

    Example:
        >>> found = compare(["runs/ppo", "DQN=runs/dqn"])  # doctest: +SKIP
        >>> print(found.verdict)  # doctest: +SKIP
        ppo is better than DQN: P(improvement) 0.93 [0.81, 1.00], p = 0.002; …
    """
    sign_of(mode)
    if x is not None:
        check_budget_name(x)
    sweeps = contenders(sources)
    axes = [x] if x else axes_of(sweep for given in sweeps.values() for sweep in given)
    unshared = {}  # by what there is no budget that all share, and why
    for axis in axes:
        samples, left_out = _samples(sweeps, metric, mode, axis, unit)
        try:
            tasks = shared_tasks(samples, mode, budget, reference)
            break
        except NoSharedBudget as error:
            unshared[axis] = str(error)
            if axis == axes[-1]:
                raise
    if threshold is not None and len(tasks) > 1:
        names = ", ".join(task.name for task in tasks)
        raise ResultsError(f"a threshold is of one task, not of {len(tasks)}: {names}")
    runs = runs_frame(samples, tasks)
    scores = score_tables(runs)
    direction = "max" if tasks[0].scaled else mode
    options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    chosen_from = {
        label: [sample.chosen_from for sample in of_tasks.values()]
        for label, of_tasks in samples.items()
    }
    pairs = compare_pairs(scores, mode=direction, chosen_from=chosen_from, **options)
    pairs["handicap"] = [_why(samples, a, b) for a, b in zip(pairs["a"], pairs["b"], strict=True)]
    summary = _summary(sweeps, samples, runs, scores, options)
    if threshold is not None:
        columns = _thresholds(samples, tasks[0], threshold, mode, window, stays, confidence)
        summary = summary.merge(columns, on="algorithm")
    budgets = {task.budget for task in tasks}
    found = Comparison(
        metric, mode, axis, budgets.pop() if len(budgets) == 1 else None, threshold, confidence,
        summary, pairs, runs, _curves(samples, tasks, options),
        pd.DataFrame([vars(task) for task in tasks]).rename(columns={"name": "task"}),
        verdict_lines(pairs),
    )  # fmt: skip
    found.notes = notes(found, samples, tasks, chosen=budget is None, given=reference is not None)
    found.notes[1:1] = unshared_lines(unshared)
    found.cautions = cautions(found, samples, left_out)
    return found


def _samples(
    sweeps: dict[str, list[Sweep]], metric: str, mode: str, x: str, unit: str
) -> tuple[Samples, list[str]]:
    """Return each contender's runs on the tasks that all share, and the tasks that some lack."""
    homes = {
        label: {task: sweep for sweep in given for task in tasks_of(sweep)}
        for label, given in sweeps.items()
    }
    shared = [task for task in next(iter(homes.values())) if all(task in h for h in homes.values())]
    if not shared:
        said = "; ".join(f"{label}: {', '.join(tasks) or 'none'}" for label, tasks in homes.items())
        raise ResultsError(f"the contenders share no environment. {said}")
    for given in sweeps.values():
        for sweep in given:
            sweep.require_metric(metric)
            sweep.require_metric(ITERATION if x == END else x)
    possible = {
        label: {
            task: possible_samples(homes[label][task], task, metric, mode, x) for task in shared
        }
        for label in sweeps
    }
    every = dict.fromkeys(task for tasks in homes.values() for task in tasks)
    return choose_samples(possible, unit), [task for task in every if task not in shared]


def _why(samples: Samples, a: str, b: str) -> str:
    """Return the first reason, over tasks, why it would be unfair to call a better than b."""
    reasons = (handicap(samples[a][task], samples[b][task]) for task in samples[a])
    return next(filter(None, reasons), "")


def _summary(
    sweeps: dict[str, list[Sweep]],
    samples: Samples,
    runs: pd.DataFrame,
    scores: dict[str, np.ndarray],
    options: dict[str, Any],
) -> pd.DataFrame:
    found = aggregate(scores, **options)
    areas = aggregate(score_tables(runs, "area"), **options)
    areas = areas[areas["statistic"] == "iqm"].assign(statistic="area")
    table = pd.concat([found, areas]).set_index(["algorithm", "statistic"])
    rows = []
    for label, score in scores.items():
        chosen = list(samples[label].values())
        row: dict[str, Any] = {
            "algorithm": label, "unit": "/".join(sorted({sample.unit for sample in chosen})),
            "runs": len(score), "tasks": score.shape[1],
        }  # fmt: skip
        for name in ("iqm", "mean", "median", "area"):
            at = table.loc[label].loc[name]
            row |= {name: at["value"], f"{name}_low": at["low"], f"{name}_high": at["high"]}
        row["seconds"] = runs.loc[runs["algorithm"] == label, "seconds"].median()
        row |= _total(sweeps[label])
        row["chosen_from"] = max(sample.chosen_from for sample in chosen)
        row["lost"] = sum(sample.lost for sample in chosen)
        rows.append(row)
    return pd.DataFrame(rows)


def _total(sweeps: list[Sweep]) -> dict[str, float]:
    """Return what all trials of the sweeps took, the search and the finals among them."""
    finals = [load_sweep(folder) for sweep in sweeps for folder in final_folders(sweep)]
    costs = cost_frame([*sweeps, *finals])
    hours = {
        f"total_{name}_hours": costs[f"{name}_s"].sum(min_count=len(costs)) / 3600
        for name in ("wall", "cpu", "gpu")
    }
    return {"total_env_steps": costs["env_steps"].sum(), **hours}


def _thresholds(
    samples: Samples,
    task: Task,
    threshold: float,
    mode: str,
    window: int,
    stays: bool,
    confidence: float,
) -> pd.DataFrame:
    rows = []
    for label, of_tasks in samples.items():
        sample = of_tasks[task.name]
        budgets = []
        for run in sample.runs:
            within = run.steps <= task.budget
            steps, values = run.steps[within], run.values[within]
            budgets.append(
                budget_to_threshold(steps, values, threshold, mode, window=window, stays=stays)
            )
        budgets += [math.inf] * sample.missing  # else those who lose runs would gain by it
        found = reached_summary(
            budgets, [task.budget] * len(budgets), horizon=task.budget, confidence=confidence
        )
        rows.append(
            {
                "algorithm": label,
                "reached": found.fraction,
                "threshold_median": found.median,
                "threshold_median_low": found.median_low,
                "threshold_median_high": found.median_high,
                "threshold_mean": found.mean,
                "threshold_mean_low": found.mean_low,
                "threshold_mean_high": found.mean_high,
            }
        )
    return pd.DataFrame(rows)


def _curves(samples: Samples, tasks: list[Task], options: dict[str, Any]) -> pd.DataFrame:
    shares, tables = curve_tables(samples, tasks)
    fewer = {**options, "resamples": min(500, options["resamples"])}
    frame = aggregate_curves(tables, list(shares), **fewer).rename(columns={"budget": "share"})
    same = len({task.budget for task in tasks}) == 1
    frame.insert(2, "budget", frame["share"] * tasks[0].budget if same else math.nan)
    return frame.drop(columns=["seeds", "tasks"])
