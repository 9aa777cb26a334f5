"""A run's curve of one metric, as arrays: of a trial, or of one seed of a trial of several."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.names import END, ENV_STEPS, ITERATION, SECONDS, finite
from analysis.results.records import TrialRecord

_SEED = re.compile(r"seed_(-?\d+)/(.+)")


@dataclass(frozen=True)
class RunCurve:
    """What one training run reported of a metric.

    Attributes:
        trial_id: The id of its trial.
        seed: The run's seed, where it has one of its own; else None.
        steps: `[reports]`: the budget at each report, ascending.
        values: `[reports]`: the metric there; all finite.
        seconds: `[reports]`: the training time there; NaN where it was not reported.
        diverged: The run went on without a finite value of the metric.
    """

    trial_id: str
    seed: int | None
    steps: np.ndarray
    values: np.ndarray
    seconds: np.ndarray
    diverged: bool = False

    @property
    def name(self) -> str:
        """The trial and, where it is known, the seed."""
        return self.trial_id if self.seed is None else f"{self.trial_id} (seed {self.seed})"

    @property
    def end(self) -> float:
        """The budget of the last report; NaN if there is none."""
        return float(self.steps[-1]) if len(self.steps) else float("nan")

    def at(self, budget: float) -> float:
        """Return the value at a budget, on the straight line between the reports before and after.

        So runs that report at other budgets can be compared: a report from long before would stand
        for less training. NaN before the first report; the last value after the last.
        """
        if not len(self.steps) or budget < self.steps[0]:
            return float("nan")
        return float(np.interp(budget, self.steps, self.values))

    def gap(self, budget: float) -> float:
        """Return how far apart the reports around a budget are; 0 at a report or at the end."""
        row = self._row(budget)
        if row < 0 or row == len(self.steps) - 1 or self.steps[row] == budget:
            return 0.0
        return float(self.steps[row + 1] - self.steps[row])

    def seconds_at(self, budget: float) -> float:
        """Return the training time of the last report within a budget; NaN before the first."""
        row = self._row(budget)
        return float(self.seconds[row]) if row >= 0 else float("nan")

    def _row(self, budget: float) -> int:
        return int(np.searchsorted(self.steps, budget, side="right")) - 1


def trial_curve(trial: TrialRecord, metric: str, x: str = ENV_STEPS) -> RunCurve:
    """Return the trial's own curve: of a trial of several seeds that of their interquartile mean.

    Args:
        trial: The trial.
        metric: The flat name of the metric.
        x: What the budget is counted in: a column of the results, or `analysis.names.END`.
    """
    seed = trial.config.get("seed")
    return _curve(trial, metric, x, seed if isinstance(seed, int) else None)


def run_curves(trial: TrialRecord, metric: str, x: str = ENV_STEPS) -> list[RunCurve]:
    """Return the curve of each of the trial's training runs: one, or one for each of its seeds.

    Of the trial's seconds each of its seeds has an equal share, which is what a seed takes where
    they train in turns; side by side they take longer. So has a trial of the time that it shared
    with others of its process.

    Args:
        trial: The trial.
        metric: The flat name of the metric.
        x: What the budget is counted in: a column of the results, or `analysis.names.END`.
    """
    seeds = trial_seeds(trial, metric)
    if not seeds:
        return [trial_curve(trial, metric, x)]
    curves = []
    for seed in seeds:
        own = f"seed_{seed}/{x}"
        steps = own if own in trial.frame else x
        curves.append(_curve(trial, f"seed_{seed}/{metric}", steps, seed, share=1 / len(seeds)))
    return curves


def trial_seeds(trial: TrialRecord, metric: str) -> list[int]:
    """Return the seeds of a trial of several, for which it reports the metric; else none."""
    found = (_SEED.fullmatch(str(column)) for column in trial.frame.columns)
    return sorted(int(match[1]) for match in found if match and match[2] == metric)


def _curve(
    trial: TrialRecord, metric: str, x: str, seed: int | None, share: float = 1.0
) -> RunCurve:
    counted = ITERATION if x == END else x
    seconds = trial.seconds()
    values = finite(trial.frame.get(metric))
    steps = finite(seconds if x == SECONDS else trial.frame.get(counted))
    rows = values.index.intersection(steps.index)
    budgets = steps[rows].to_numpy()
    if x == END and len(budgets):
        budgets = budgets / budgets[-1]
    return RunCurve(
        trial.trial_id,
        seed,
        budgets * share if x == SECONDS else budgets,
        values[rows].to_numpy(),
        finite(seconds).reindex(rows).to_numpy() * share,
        _diverged(trial.frame.index.isin(values.index), trial.frame.get(metric, values)),
    )


def _diverged(found: np.ndarray, column: pd.Series) -> bool:
    """Tell whether the values end for good before the run does, or in an infinite one.

    A metric may be reported in every n-th row only, as that of an evaluation is: its values have
    ended where more rows lack one at the end than anywhere between two of them. How long the first
    one took (an episode has to end) says nothing, but where it is the only one.
    """
    rows = np.flatnonzero(found)
    if not len(rows):
        return True
    after = pd.to_numeric(column.iloc[rows[-1] + 1 :], errors="coerce").to_numpy(float)
    gaps = np.diff(rows, prepend=-1) - 1
    usual = gaps[1:].max() if len(gaps) > 1 else gaps[0]
    return bool(len(after) > usual or np.isinf(after).any())
