"""Student's t interval of the IQM: against scipy's, and against a simulation with few seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis.results.rows import ResultsError
from analysis.statistics import iqm, iqm_interval, trimmed_t_interval


@pytest.mark.parametrize("seeds", [8, 12, 20, 40])
def test_it_is_scipys_trimmed_mean_interval(seeds: int) -> None:
    scores = np.random.default_rng(seeds).standard_t(3, size=seeds)
    expected = stats.mstats.trimmed_mean_ci(scores, limits=(0.25, 0.25), alpha=0.1)
    found = iqm_interval(scores, method="t", confidence=0.9)
    assert found == pytest.approx(tuple(expected))


def test_of_three_seeds_nothing_is_cut_off() -> None:
    scores = [1.0, 2.0, 6.0]
    expected = stats.t.interval(0.95, 2, np.mean(scores), stats.sem(scores))
    assert trimmed_t_interval(scores) == pytest.approx(expected)


def test_tasks_add_their_own_variances() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(10, 1)) + np.zeros((10, 4))  # four equal tasks
    low, high = trimmed_t_interval(scores)
    one_low, one_high = trimmed_t_interval(scores[:, 0])
    center = iqm(scores)
    assert (low + high) / 2 == pytest.approx(center)
    assert (high - low) < 0.65 * (one_high - one_low)  # half as wide, and more degrees of freedom
    far = scores + np.array([0.0, 100.0, 200.0, 300.0])  # the outer two tasks are cut off whole
    low, high = trimmed_t_interval(far)
    assert high - low < 3 and low < iqm(far) < high
    assert trimmed_t_interval([[0.0, 9.0]] * 5) == (4.5, 4.5)


def test_the_wider_of_both() -> None:
    scores = [1.0, 2.0, 6.0, 30.0, 31.0]
    both = np.array([iqm_interval(scores), trimmed_t_interval(scores)])
    assert iqm_interval(scores, method="wider") == (both[:, 0].min(), both[:, 1].max())
    assert all(math.isnan(end) for end in iqm_interval([1.0], method="wider"))


def test_unknown_and_refused() -> None:
    assert all(math.isnan(end) for end in trimmed_t_interval([1.0]))
    assert all(math.isnan(end) for end in trimmed_t_interval([1.0, math.inf, 2.0]))
    with pytest.raises(ResultsError, match="method must be one of percentile, t, wider, not 'bca'"):
        iqm_interval([1.0, 2.0], method="bca")


@pytest.mark.parametrize(
    ("seeds", "tasks"),
    [
        (3, 1),
        pytest.param(5, 1, marks=pytest.mark.full),
        pytest.param(10, 1, marks=pytest.mark.full),
        pytest.param(5, 4, marks=pytest.mark.full),
    ],
)
def test_it_holds_about_as_often_as_it_says(seeds: int, tasks: int) -> None:
    """Where the percentile interval holds in 73 % of 3 seeds and in 90 % of 5."""
    rng = np.random.default_rng([seeds, tasks])
    held = 0
    for _ in range(1_000):
        low, high = trimmed_t_interval(rng.normal(size=(seeds, tasks)))
        held += low <= 0 <= high
    assert held / 1_000 == pytest.approx(0.94, abs=0.025)
