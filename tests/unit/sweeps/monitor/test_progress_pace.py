"""When a sweep's time to its end is told: once the speed of its budget is known well enough."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.monitor.progress_budget import MIN_MEASURED_S, MIN_RESULTS, Budget, Pace


def _known(results: list[tuple[float, float]], until: float) -> list[float]:
    """The seconds at which a pace is told, if it is asked for each second."""
    pace, told = Pace(), []
    pace.look(0.0, 0.0)
    for now in range(1, int(until) + 1):
        for at, used in results:
            if now - 1 < at <= now:
                pace.look(at, used)
        if pace.per_second(float(now)) is not None:
            told.append(float(now))
    return told


def test_starting_does_not_count_and_a_few_results_say_nothing() -> None:
    results = [(60.0 + 2 * i, 100.0 * (i + 1)) for i in range(40)]
    told = _known(results, 140)
    assert told[0] == 60 + max(MIN_MEASURED_S, 2 * MIN_RESULTS)
    assert told == [float(s) for s in range(int(told[0]), 141)]  # and ever after
    pace = Pace()
    pace.look(0.0, 0.0)
    for at, used in results:
        pace.look(at, used)
    assert pace.per_second(138.0) == pytest.approx(50.0)  # not 4000 / 138 s


def test_a_speed_that_still_changes_is_not_told() -> None:
    slow = [(30.0 + 5 * i, 10.0 * (i + 1)) for i in range(6)]
    fast = [(60.0 + i, 60.0 + 100.0 * (i + 1)) for i in range(60)]
    told = _known(slow + fast, 120)
    settled_slow, rest = [s for s in told if s <= 60], [s for s in told if s > 60]
    assert settled_slow  # slow, but even: that is a speed
    assert rest
    lumps = [(30.0, 1.0), (31.0, 2.0), (50.0, 3.0), *((52.0 + i, 50.0 * i) for i in range(1, 60))]
    told = _known(lumps, 112)
    assert told[0] > 60


def test_no_result_no_time() -> None:
    assert _known([], 600) == []
    assert _known([(30.0, 1000.0)], 600) == []


def test_no_five_hours_after_a_slow_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 trials of 100 iterations, 2 at a time, 2 iterations a second after a minute of starting."""
    now = 0.0
    monkeypatch.setattr("experiments.monitor.progress_budget.time.monotonic", lambda: now)
    budget, told = Budget(), {}
    trials: list[Any] = [
        SimpleNamespace(
            status="RUNNING", stopping_criterion={"training_iteration": 100}, last_result={}
        )
        for _ in range(2)
    ]
    for second in range(160):
        now = float(second)
        for trial in trials if second >= 60 else ():
            trial.last_result = {"training_iteration": min(100, second - 59)}
        budget.update(trials, 8)
        if budget.eta_s is not None:
            told[second] = budget.eta_s
    assert min(told) == 70
    for second, eta in told.items():
        assert eta == pytest.approx((800 - 2 * (second - 59)) / 2, rel=0.1)


def test_a_time_limit_is_told_as_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("experiments.monitor.progress_budget.time.monotonic", lambda: now)
    budget = Budget(time_budget_s=100.0)
    now = 30.0
    budget.update([], 8)
    assert (budget.eta_s, budget.limit_s) == (None, 70.0)
