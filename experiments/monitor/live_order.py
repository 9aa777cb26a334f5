"""The order of a sweep's trials while it runs: that of every table (`analysis.ranking.order`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.names import ITERATION
from analysis.ranking.order import Course, best_first, number
from experiments.trial_info import read_json_lines, trial_folder

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class LiveOrder:
    """Keeps what each trial has reported of the objective.

    Of a trial that reported before this process began, as in a resumed sweep, only its last result
    is at hand. Its file is read where that does not do: for a tie.

    Args:
        metric: The objective.
        mode: "max" or "min".
    """

    def __init__(self, metric: str, mode: str) -> None:
        self._metric, self._mode = metric, mode
        self._courses: dict[str, Course] = {}

    def note(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Take note of a result, before Tune makes it the trial's last one."""
        self._course(trial).note(result, self._metric)

    def best_first(self, trials: list[Trial]) -> list[Trial]:
        """Return all trials, those without a finite value last, in the order of their numbers."""
        by_number = sorted(trials, key=number_of)
        return best_first(by_number, self._mode, last=self.last, course=self._course)

    def best(self, trials: list[Trial]) -> Trial | None:
        """Return the first of them, if it has a finite value."""
        first = self.best_first(trials)[:1]
        return first[0] if first and math.isfinite(self.last(first[0])) else None

    def last(self, trial: Trial) -> float:
        """Return the last finite value that a trial reported; NaN if there is none."""
        if trial.trial_id in self._courses:
            return self._courses[trial.trial_id].last
        result = trial.last_result or {}
        value = number(result.get(self._metric))
        if math.isfinite(value):
            return value
        return self._course(trial).last if result.get(ITERATION) else math.nan

    def _course(self, trial: Trial) -> Course:
        if trial.trial_id not in self._courses:
            self._courses[trial.trial_id] = self._read(trial)
        return self._courses[trial.trial_id]

    def _read(self, trial: Trial) -> Course:
        """Return what a trial reported before, up to its last result."""
        course, last = Course(), trial.last_result or {}
        if not last.get(ITERATION):
            return course
        for row in read_json_lines(trial_folder(trial) / "result.json"):
            course.note(row, self._metric)
        # A remote folder is not read; and a trial that goes on may have rows beyond its checkpoint.
        course.note(last, self._metric)
        return course


def number_of(trial: Trial) -> int:
    """Return a trial's number in its sweep, which begins its tag: `3_lr=0.1`."""
    first = str(trial.experiment_tag or "").partition("_")[0]
    return int(first) if first.isdecimal() else 0
