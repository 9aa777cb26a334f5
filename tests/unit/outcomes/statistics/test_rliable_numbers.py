"""Statistics of runs against rliable: its numbers, frozen, and itself where it can be imported."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from make_rliable_numbers import NUMBERS

from analysis.statistics import (
    aggregate,
    average_score_distribution,
    performance_profile,
    probability_of_improvement,
)

FROZEN = json.loads(NUMBERS.read_text(encoding="utf-8"))
CASES = FROZEN["cases"]
IDS = [f"{len(case['x'])}x{len(case['x'][0])}" for case in CASES]
# Both intervals are percentiles of random resamples: so many standard deviations of the scores.
SLACK = 0.03


@pytest.fixture(params=CASES, ids=IDS)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_estimates_and_intervals_are_rliables(case: dict[str, Any]) -> None:
    frame = aggregate({"x": case["x"]}, target=1.0, resamples=20_000)
    found = frame.set_index("statistic")
    slack = SLACK * np.std(case["x"])
    assert list(found.index) == list(case["values"])
    for statistic, value in case["values"].items():
        row = found.loc[statistic]
        assert row["value"] == pytest.approx(value, abs=1e-12)
        assert [row["low"], row["high"]] == pytest.approx(case["intervals"][statistic], abs=slack)


def test_profiles_are_rliables(case: dict[str, Any]) -> None:
    profile = performance_profile({"x": case["x"]}, FROZEN["thresholds"], resamples=5_000)
    assert list(profile["fraction"]) == pytest.approx(case["profile"], abs=1e-12)
    one_run = 1 / np.size(case["x"])  # the ends jump by whole runs
    for end, expected in zip(("low", "high"), case["band"], strict=True):
        assert list(profile[end]) == pytest.approx(expected, abs=one_run + 1e-9)
    average = average_score_distribution({"x": case["x"]}, FROZEN["thresholds"], resamples=200)
    assert list(average["fraction"]) == pytest.approx(case["average_profile"], abs=1e-12)


def test_probability_of_improvement_is_rliables(case: dict[str, Any]) -> None:
    found = probability_of_improvement(case["x"], case["y"], resamples=20_000)
    assert found.probability == pytest.approx(case["improvement"], abs=1e-12)
    assert [found.low, found.high] == pytest.approx(case["improvement_interval"], abs=0.03)


@pytest.mark.parametrize("shape", [(4, 1), (5, 3), (8, 7)])
def test_estimates_are_those_of_rliable_itself(shape: tuple[int, int]) -> None:
    metrics = pytest.importorskip("rliable.metrics")
    x, y = (np.random.default_rng([n, *shape]).normal(size=shape).round(1) for n in (0, 1))
    values = aggregate({"x": x}, target=0.5, resamples=100).set_index("statistic")["value"]
    assert values["mean"] == pytest.approx(metrics.aggregate_mean(x), abs=1e-12)
    assert values["median"] == pytest.approx(metrics.aggregate_median(x), abs=1e-12)
    assert values["iqm"] == metrics.aggregate_iqm(x)
    gap = metrics.aggregate_optimality_gap(x, gamma=0.5)
    assert values["optimality_gap"] == pytest.approx(gap, abs=1e-12)
    expected = metrics.probability_of_improvement(x, y)
    found = probability_of_improvement(x, y, resamples=100)
    assert found.probability == pytest.approx(expected, abs=1e-12)
