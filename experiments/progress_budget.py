"""How fast the trials are, how much of a sweep's budget is used, and how long the rest may take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from experiments.sections import ENV_STEPS

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_MIN_ELAPSED_S = 5.0  # before it, the first seconds' set-up would spoil the estimate
# In the order of preference: what a trial's budget is counted in.
_UNITS = {ENV_STEPS: "env steps", "training_iteration": "iterations", "time_total_s": "s"}


class Speeds:
    """Env steps per second of running trials: as reported, else from successive results."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}  # trial id -> env steps, seconds trained
        self._speed: dict[str, float] = {}

    def update(self, trials: list[Trial]) -> None:
        """Takes note of the latest results."""
        for trial in trials:
            result = trial.last_result or {}
            steps, seconds = result.get(ENV_STEPS), result.get("time_total_s")
            if trial.status != "RUNNING" or steps is None or seconds is None:
                continue
            before = self._seen.get(trial.trial_id)
            self._seen[trial.trial_id] = (steps, seconds)
            if before is not None and seconds > before[1] and steps > before[0]:
                self._speed[trial.trial_id] = (steps - before[0]) / (seconds - before[1])

    def of(self, trial: Trial) -> float | None:
        """Returns a trial's speed; None if it is not known yet."""
        reported = (trial.last_result or {}).get("env_steps_per_second")
        return reported if reported is not None else self._speed.get(trial.trial_id)


class Budget:
    """How much of what a sweep may spend is spent, and what that says of the time to its end.

    The budget is the stop criterion that all trials have: env steps where there are any, else
    iterations, else seconds of training. Early stopping leaves a part of it unused.

    Args:
        seeds: how many seeds a trial trains, each with the budget of the stop criterion.
        time_budget_s: the sweep's own limit, if it has one.
    """

    def __init__(self, seeds: int = 1, time_budget_s: float | None = None) -> None:
        self._seeds = seeds
        self._time_budget_s = time_budget_s
        self._start = time.monotonic()
        self._spent_before: float | None = None  # by the session that this one resumes
        self.unit: str = ""
        self.used = 0.0
        self.total: float | None = None
        self.eta_s: float | None = None

    def update(self, trials: list[Trial], total_trials: int | None) -> None:
        """Looks at the trials.

        Args:
            trials: those that exist.
            total_trials: how many there will be; None if that is not known.
        """
        metric, limit = _criterion(trials)
        self.unit = _UNITS.get(metric, "") if metric else ""
        self.total = self.eta_s = None
        if metric is None or limit is None:
            return
        spent = [_number((trial.last_result or {}).get(metric)) for trial in trials]
        self.used = self._seeds * sum(spent)
        if self._spent_before is None:
            self._spent_before = self.used
        if total_trials is None:
            return
        expected = max(total_trials, len(trials))
        self.total = self._seeds * limit * expected
        left = self._left(trials, spent, limit, expected)
        elapsed = time.monotonic() - self._start
        rate = (self.used - self._spent_before) / elapsed if elapsed > _MIN_ELAPSED_S else 0.0
        if left == 0:
            self.eta_s = 0.0
        elif rate > 0:
            self.eta_s = left / rate
        if self._time_budget_s is not None:
            until_stop = max(0.0, self._time_budget_s - elapsed)
            self.eta_s = until_stop if self.eta_s is None else min(self.eta_s, until_stop)

    def _left(self, trials: list[Trial], spent: list[float], limit: float, expected: int) -> float:
        """What is still to be spent, if trials to come end as early as those that have ended."""
        ended = [s for trial, s in zip(trials, spent, strict=True) if _has_ended(trial)]
        typical = sum(ended) / len(ended) if ended else limit
        running = [s for trial, s in zip(trials, spent, strict=True) if not _has_ended(trial)]
        left = sum(typical - s if s < typical else max(0.0, limit - s) for s in running)
        return self._seeds * (left + typical * (expected - len(trials)))


def _criterion(trials: list[Trial]) -> tuple[str | None, float | None]:
    """The stop criterion that the budget is counted in, and its value."""
    criteria = trials[0].stopping_criterion or {} if trials else {}
    for metric in _UNITS:
        if metric in criteria:
            return metric, float(criteria[metric])
    return None, None


def _has_ended(trial: Trial) -> bool:
    return trial.status in ("TERMINATED", "ERROR")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
