"""How fast the trials are, how much of a sweep's budget is used, and how long the rest may take.

How long it may take is told only once that means something. The budget's speed is measured from
this session's first result on, so that what Ray and the trials' processes needed to start does not
count, and it is believed once

- `MIN_RESULTS` further looks have found new results, over at least `MIN_MEASURED_S`, and
- its later half was as fast as the whole, within a factor of `SETTLED`.

From then on there is an estimate at any time.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from analysis.names import ENV_STEPS, ITERATION, SECONDS

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

MIN_MEASURED_S = 10.0
MIN_RESULTS = 5
SETTLED = 1.5
_MOST_POINTS = 512  # of the measured course
# In the order of preference: what a trial's budget is counted in.
_UNITS = {ENV_STEPS: "env steps", ITERATION: "iterations", SECONDS: "s"}


class Speeds:
    """Env steps per second of running trials: as reported, else from successive results."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}  # trial id -> env steps, seconds trained
        self._speed: dict[str, float] = {}

    def update(self, trials: list[Trial]) -> None:
        """Take note of the latest results."""
        for trial in trials:
            result = trial.last_result or {}
            steps, seconds = result.get(ENV_STEPS), result.get(SECONDS)
            if trial.status != "RUNNING" or steps is None or seconds is None:
                continue
            before = self._seen.get(trial.trial_id)
            self._seen[trial.trial_id] = (steps, seconds)
            if before is not None and seconds > before[1] and steps > before[0]:
                self._speed[trial.trial_id] = (steps - before[0]) / (seconds - before[1])

    def of(self, trial: Trial) -> float | None:
        """Return a trial's speed; None if it is not known yet."""
        reported = (trial.last_result or {}).get("env_steps_per_second")
        return reported if reported is not None else self._speed.get(trial.trial_id)


class Pace:
    """How fast the budget is used, once that is known: see the module's first lines."""

    def __init__(self) -> None:
        self._before: float | None = None  # used by the session that this one resumes
        self._course: list[tuple[float, float]] = []  # seconds, used: whenever that had grown
        self._num_results = 0
        self._is_settled = False

    def look(self, now: float, used: float) -> None:
        """Take note of what is used.

        Args:
            now: The time in seconds, of any clock.
            used: What is used in all.
        """
        if self._before is None:
            self._before = used
        if used <= (self._course[-1][1] if self._course else self._before):
            return
        self._course.append((now, used))
        self._num_results += 1
        if len(self._course) > _MOST_POINTS:  # the first and the last one stay
            self._course[1:-1] = self._course[2:-1:2]

    def per_second(self, now: float) -> float | None:
        """Return what is used per second, on average up to now; None while that says little."""
        if not self._course:
            return None
        (start, first), (_, last) = self._course[0], self._course[-1]
        if self._num_results <= MIN_RESULTS or now - start < MIN_MEASURED_S:
            return None
        pace = (last - first) / (now - start)
        if not self._is_settled:
            middle = start + (now - start) / 2
            later = (last - self._used_at(middle)) / (now - middle)
            self._is_settled = pace / SETTLED <= later <= pace * SETTLED
        return pace if self._is_settled else None

    def _used_at(self, when: float) -> float:
        """Return what was used at a time, which lies within what was measured or after it."""
        for (begin, before), (end, after) in pairwise(self._course):
            if when < end:
                return before + (after - before) * (when - begin) / (end - begin)
        return self._course[-1][1]


class Budget:
    """How much of what a sweep may spend is spent, and what that says of the time to its end.

    The budget is the stop criterion that all trials have: env steps where there are any, else
    iterations, else seconds of training. Early stopping leaves a part of it unused.

    Args:
        seeds: How many seeds a trial trains, each with the budget of the stop criterion.
        time_budget_s: The sweep's own limit, if it has one.
    """

    def __init__(self, seeds: int = 1, time_budget_s: float | None = None) -> None:
        self._seeds = seeds
        self._time_budget_s = time_budget_s
        self._start = time.monotonic()
        self._pace = Pace()
        self.unit: str = ""
        self.used = 0.0
        self.total: float | None = None
        self.eta_s: float | None = None
        self.limit_s: float | None = None  # until the sweep's own time limit ends it

    def update(self, trials: list[Trial], total_trials: int | None) -> None:
        """Look at the trials.

        Args:
            trials: The trials that exist.
            total_trials: How many there will be; None if that is not known.
        """
        now = time.monotonic()
        if self._time_budget_s is not None:
            self.limit_s = max(0.0, self._time_budget_s - (now - self._start))
        metric, limit = _criterion(trials)
        self.unit = _UNITS.get(metric, "") if metric else ""
        self.total = self.eta_s = None
        if metric is None or limit is None:
            return
        spent = [_number((trial.last_result or {}).get(metric)) for trial in trials]
        self.used = self._seeds * sum(spent)
        self._pace.look(now, self.used)
        if total_trials is None:
            return
        expected = max(total_trials, len(trials))
        self.total = self._seeds * limit * expected
        left = self._left(trials, spent, limit, expected)
        pace = self._pace.per_second(now)
        if left == 0:
            self.eta_s = 0.0
        elif pace is not None:
            self.eta_s = left / pace
            if self.limit_s is not None:
                self.eta_s = min(self.eta_s, self.limit_s)

    def _left(self, trials: list[Trial], spent: list[float], limit: float, expected: int) -> float:
        """What is still to be spent, if trials to come end as early as those that have ended."""
        ended = [s for trial, s in zip(trials, spent, strict=True) if _has_ended(trial)]
        typical = sum(ended) / len(ended) if ended else limit
        running = [s for trial, s in zip(trials, spent, strict=True) if not _has_ended(trial)]
        left = sum(typical - s if s < typical else max(0.0, limit - s) for s in running)
        return self._seeds * (left + typical * (expected - len(trials)))


def _criterion(trials: list[Trial]) -> tuple[str | None, float | None]:
    """Return the stop criterion that the budget is counted in, and its value."""
    criteria = trials[0].stopping_criterion or {} if trials else {}
    for metric in _UNITS:
        if metric in criteria:
            return metric, float(criteria[metric])
    return None, None


def _has_ended(trial: Trial) -> bool:
    return trial.status in ("TERMINATED", "ERROR")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
