"""What a trial of several seeds reports: one result from those of its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.names import ENV_STEPS, EPISODES, EVALUATED_EPISODES
from analysis.statistics import iqm, iqm_interval, median_index
from experiments.spec.metrics import TWICE

NUM_SEEDS = "num_seeds"
MEDIAN_SEED = "median_seed"
"""Key of the seed whose objective is the median: its policy is the trial's."""

_BUDGETS = (ENV_STEPS, "timesteps_total")
_FLAGS = ("done", "should_checkpoint")

Results = Mapping[int, Mapping[str, float]]


def seed_report(results: Results, objectives: Sequence[str]) -> dict[str, Any]:
    """Return one flat result for the latest results of all seeds.

    Args:
        results: Flat numbers by seed, and `done` of a seed that ended itself.
        objectives: The metrics that are optimised.

    Returns:
        - each objective's own key: its interquartile mean over the seeds;
        - `seeds/<objective>/low` and `…/high` (95 % percentile bootstrap interval), `…/min` and
          `…/max` over the seeds, and `seed_<seed>/<objective>` for each;
        - budgets: what each seed that goes on has spent at least, and each one's environment steps;
        - episodes: of the seed with the fewest, so 0 until the objective of each is known;
        - every other metric: the mean over the seeds that reported it;
        - `done` where all seeds ended themselves.

        An objective that a seed did not report is left out, and one that is not a number for one
        of the seeds is not a number.
    """
    report: dict[str, Any] = _means(results)
    for name in objectives:  # a mean over some of the seeds is none
        if any(name not in result for result in results.values()):
            report.pop(name, None)
    for objective in objectives:
        report |= _objective(results, objective)
    for name, canonical in TWICE.items():
        if name in report and canonical in objectives and canonical in report:
            report[name] = report[canonical]
    for seed, result in results.items():
        if ENV_STEPS in result:
            report[f"seed_{seed}/{ENV_STEPS}"] = result[ENV_STEPS]
    report[NUM_SEEDS] = len(results)
    report[MEDIAN_SEED] = median_seed(results, objectives[0])
    report["done"] = all(result.get("done") for result in results.values())
    if any(result.get("should_checkpoint") for result in results.values()):
        report["should_checkpoint"] = True
    return report


def median_seed(results: Results, objective: str) -> int:
    """Return the seed whose objective is the median."""
    seeds = list(results)
    return seeds[median_index([results[seed].get(objective, math.nan) for seed in seeds])]


def _means(results: Results) -> dict[str, float]:
    """In the order of the seeds' keys; counters stay whole numbers where they agree."""
    running = [result for result in results.values() if not result.get("done")]
    report: dict[str, float] = {}
    for name in dict.fromkeys(key for result in results.values() for key in result):
        values = [result[name] for result in results.values() if name in result]
        if name in _FLAGS:
            continue
        if name in _BUDGETS and running:
            report[name] = min(result[name] for result in running if name in result)
        elif name in (EPISODES, EVALUATED_EPISODES):
            report[name] = min(values)
        elif all(value == values[0] for value in values):
            report[name] = values[0]
        else:
            report[name] = float(np.mean(values))
    return report


def _objective(results: Results, name: str) -> dict[str, float]:
    if any(name not in result for result in results.values()):
        return {}
    values = [result[name] for result in results.values()]
    report = {
        name: iqm(values),
        f"seeds/{name}/min": float(np.min(values)),
        f"seeds/{name}/max": float(np.max(values)),
    }
    low, high = iqm_interval(values)
    if math.isfinite(low):
        report |= {f"seeds/{name}/low": low, f"seeds/{name}/high": high}
    return report | {f"seed_{seed}/{name}": result[name] for seed, result in results.items()}
