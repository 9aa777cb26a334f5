"""How progress is put into words: which trials and settings are shown, and in which order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.numbers import clock, finite_or_none, whole
from analysis.ranking.order import Course, best_first, number
from analysis.results.rows import flatten
from experiments.trial_info import read_json_lines, trial_folder

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


def varying_settings(trials: list[Trial]) -> dict[str, None]:
    """Return the searched settings, in their order, that differ between trials or have changed.

    With fewer than two trials all searched settings count.
    """
    searched: dict[str, set[str]] = {}
    for trial in trials:
        drawn = flatten(trial.evaluated_params or {})
        for key, value in searched_settings(trial).items():
            searched.setdefault(key, set()).update((repr(drawn[key]), repr(value)))
    return {k: None for k, values in searched.items() if len(trials) < 2 or len(values) > 1}


def searched_settings(trial: Trial) -> dict[str, Any]:
    """Return a trial's searched settings as they are now: a population changes them."""
    drawn, config = flatten(trial.evaluated_params or {}), flatten(trial.config or {})
    return {key: config.get(key, value) for key, value in drawn.items()}


def select_rows(ranked: list[Trial], limit: int) -> list[Trial]:
    """Return at most `limit` of the trials, in their order: the best, and the best running ones.

    Args:
        ranked: The trials, the best first.
        limit: How many there is room for; the best of the others have what the running ones leave.
    """
    others = ranked[1:]  # the first is always shown, whatever runs
    by_need = [*ranked[:1], *sorted(others, key=lambda trial: trial.status != "RUNNING")]
    shown = {trial.trial_id for trial in by_need[:limit]}
    return [trial for trial in ranked if trial.trial_id in shown]


def value_of(trial: Trial, metric: str) -> float | None:
    """Return the last value of a metric; None if there is none, or no finite one."""
    return finite_or_none((trial.last_result or {}).get(metric))


def spent(result: Mapping[str, Any]) -> str:
    """Return what a trial has spent: env steps, or time where it does not count them."""
    if ENV_STEPS in result:
        return f"env steps={whole(result[ENV_STEPS])}"
    seconds = result.get(SECONDS)
    return "" if seconds is None else f"time={clock(seconds)}"


class Standing:
    """Which settings differ between trials, kept up as trials start.

    Looked up anew for each line of output, it would take longer with every trial of a long sweep.
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # each setting's first value
        self._varying: set[str] = set()
        self._known: set[str] = set()

    def varying(self, trials: list[Trial], trial: Trial) -> list[str]:
        """Return the searched settings that differ between trials; of a single one all.

        Args:
            trials: All trials; those made before a resume are looked at once.
            trial: The trial that starts.
        """
        for other in trials if not self._known else [trial]:
            if other.trial_id not in self._known:
                self._known.add(other.trial_id)
                for key, value in flatten(other.evaluated_params or {}).items():
                    if self._first.setdefault(key, repr(value)) != repr(value):
                        self._varying.add(key)
        return [key for key in self._first if key in self._varying or len(self._known) < 2]


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
