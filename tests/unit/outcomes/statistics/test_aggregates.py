"""Aggregates, profiles and the probability of improvement by hand and at their edges."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Golden, refusals
from scipy.stats import mannwhitneyu

from analysis.results.rows import ResultsError
from analysis.statistics import (
    aggregate,
    aggregate_curves,
    average_score_distribution,
    bootstrap_interval,
    iqm_interval,
    normalise,
    performance_profile,
    probability_of_improvement,
)

SCORES = [[0.0, 1.0], [0.5, 3.0], [1.0, 2.0]]  # [3 seeds, 2 tasks]
NAN = float("nan")


def test_aggregates_worked_by_hand() -> None:
    frame = aggregate({"a": SCORES, "b": [[2.0, 2.0]] * 4}, target=1.0, resamples=200)
    a = frame[frame["algorithm"] == "a"].set_index("statistic")
    assert a["value"].to_dict() == pytest.approx(
        # IQM: one of six is left out on each side: (0.5 + 1 + 1 + 2) / 4
        {"mean": 1.25, "median": 1.25, "iqm": 1.125, "optimality_gap": 0.25}
    )
    assert (a["low"] <= a["value"]).all() and (a["value"] <= a["high"]).all()
    assert set(a["seeds"]) == {3} and set(a["tasks"]) == {2}
    b = frame[frame["algorithm"] == "b"].set_index("statistic")
    assert b.loc["iqm", ["value", "low", "high"]].tolist() == [2, 2, 2]
    assert b.loc["optimality_gap", "value"] == 0  # above the target counts as the target
    assert "optimality_gap" not in set(aggregate({"a": SCORES}, resamples=200)["statistic"])


def test_all_statistics_have_the_resamples_that_each_has_alone() -> None:
    row = aggregate({"a": SCORES}, seed=3).set_index("statistic").loc["iqm"]
    assert (row["low"], row["high"]) == iqm_interval(SCORES, seed=3)


def test_tasks_are_resampled_by_themselves() -> None:
    """Seeds differ within no task: nothing is uncertain, however far the tasks are apart."""
    low, high = iqm_interval([[0.0, 10.0]] * 5)
    assert low == high == 5


def test_what_is_not_finite_or_single_has_no_interval() -> None:
    one = aggregate({"a": [1.0]}, resamples=100)
    assert one["value"].tolist() == [1, 1, 1] and one[["low", "high"]].isna().all(axis=None)
    broken = aggregate({"a": [1.0, NAN, 2.0], "b": [1.0, 2.0, 3.0]}, resamples=100)
    bad = broken["algorithm"] == "a"
    assert broken.loc[bad, ["value", "low", "high"]].isna().all(axis=None)
    assert broken.loc[~bad, ["value", "low", "high"]].notna().all(axis=None)
    found = probability_of_improvement([1.0, NAN], [1.0, 2.0])
    assert np.isnan(found.probability) and np.isnan(found.low)
    alone = probability_of_improvement([3.0], [1.0, 2.0])
    assert alone.probability == 1 and np.isnan(alone.low)


SHAPES: list[dict[str, object]] = [
    {},
    {"a": []},
    {"a": [[[1.0]]]},
    {"a": [[1.0, 2.0], [3.0]]},
    {"a": [[1.0, 2.0]], "b": [[1.0]]},
]


def test_other_shapes_are_refused(golden: Golden) -> None:
    golden("outcomes/aggregates", refusals(aggregate, SHAPES, ResultsError))


def test_options_of_the_bootstrap_are_checked() -> None:
    with pytest.raises(ResultsError, match=r"confidence must be between 0 and 1, not 95"):
        bootstrap_interval([1.0, 2.0], np.mean, confidence=95)
    with pytest.raises(ResultsError, match="resamples must be at least 100, not 3"):
        probability_of_improvement([1.0], [2.0], resamples=3)
    with pytest.raises(ResultsError, match="mode must be"):
        probability_of_improvement([1.0], [2.0], mode="best")


def test_normalise() -> None:
    assert normalise([[0.0, 5.0], [10.0, 10.0]], 0, [10, 5]).tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ResultsError, match="must differ"):
        normalise([1.0, 2.0], 3, 3)
    with pytest.raises(ResultsError, match="one per task"):
        normalise([1.0, 2.0], [0, 0], 1)


def test_profiles_worked_by_hand() -> None:
    frame = performance_profile({"a": SCORES}, [-1, 0, 1, 3], resamples=200)
    assert frame["fraction"].tolist() == pytest.approx([1, 5 / 6, 2 / 6, 0])  # more than, not equal
    assert (frame["low"] <= frame["fraction"]).all() and (frame["fraction"] <= frame["high"]).all()
    average = average_score_distribution({"a": SCORES}, [0.4, 0.5, 1.9, 2.0], resamples=200)
    assert average["fraction"].tolist() == [1, 0.5, 0.5, 0]


def test_thresholds_span_the_scores_of_all() -> None:
    frame = performance_profile({"a": [0.0, 1.0, NAN], "b": [2.0, 5.0]}, resamples=100)
    taus = frame.loc[frame["algorithm"] == "b", "threshold"]
    assert (taus.min(), taus.max(), len(taus)) == (0, 5, 101)
    assert frame.loc[frame["algorithm"] == "a", ["fraction", "low"]].isna().all(axis=None)
    with pytest.raises(ResultsError, match="finite"):
        performance_profile({"a": [1.0]}, [NAN])


def test_probability_of_improvement_is_mann_whitneys() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)).round(1), rng.normal(size=(9, 3)).round(1)  # with ties
    expected = np.mean([mannwhitneyu(x[:, t], y[:, t])[0] / (6 * 9) for t in range(3)])
    found = probability_of_improvement(x, y)
    assert found.probability == pytest.approx(expected)
    assert found.low < found.probability < found.high
    assert found.seeds == (6, 9) and found.tasks == 3
    assert probability_of_improvement(y, x).probability == pytest.approx(1 - expected)
    assert probability_of_improvement(y, x, mode="min").probability == pytest.approx(expected)
    assert probability_of_improvement(x, x).probability == 0.5
    assert probability_of_improvement([2.0, 3.0], [0.0, 1.0]).low > 0.5


def test_the_interval_of_an_improvement_is_a_slow_bootstraps() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.3, 1, size=(7, 2)), rng.normal(size=(5, 2))
    slow = []
    for _ in range(3_000):
        total = 0.0
        for task in range(2):
            a, b = rng.choice(x[:, task], 7), rng.choice(y[:, task], 5)
            total += np.mean(a[:, None] > b) + 0.5 * np.mean(a[:, None] == b)
        slow.append(total / 2)
    found = probability_of_improvement(x, y, resamples=10_000)
    assert [found.low, found.high] == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.025)


def test_curves_have_a_point_per_budget() -> None:
    curves = np.array([[1.0, 2.0, NAN], [3.0, 4.0, 9.0], [5.0, 9.0, 9.0]])  # [seeds, budgets]
    frame = aggregate_curves({"a": curves}, [10, 20, 30], resamples=500)
    assert frame["budget"].tolist() == [10, 20, 30]
    assert frame["iqm"].tolist()[:2] == [3, 5] and np.isnan(frame["iqm"].iloc[2])
    assert (frame["low"][0], frame["high"][0]) == iqm_interval(curves[:, 0], resamples=500)
    cube = np.stack([curves, curves], axis=1)
    assert aggregate_curves({"a": cube}, [10, 20, 30], resamples=100)["tasks"].tolist() == [2] * 3
    with pytest.raises(ResultsError, match="with 2 budgets"):
        aggregate_curves({"a": curves}, [10, 20])
