"""The interquartile mean and its interval, against scipy, rliable's formula and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tiers import rarely

from analysis.statistics import COVERAGE, interval_caution, iqm, iqm_interval, median_index

GENERATOR = np.random.default_rng(7)


def rliable_iqm(scores: np.ndarray) -> float:
    """`rliable.metrics.aggregate_iqm`: scores `[runs, tasks]`."""
    return float(stats.trim_mean(scores, proportiontocut=0.25, axis=None))


def by_hand(scores: np.ndarray) -> float:
    ordered = np.sort(scores, axis=None)
    cut = math.floor(len(ordered) * 0.25)
    return float(ordered[cut : len(ordered) - cut].mean())


@pytest.mark.parametrize("shape", [(3,), (4,), (5,), (10,), (11,), (5, 3), (10, 4)])
def test_iqm_is_rliables(shape: tuple[int, ...]) -> None:
    scores = GENERATOR.normal(size=shape)
    assert iqm(scores) == rliable_iqm(scores) == pytest.approx(by_hand(scores), rel=1e-12)


def test_iqm_of_numbers_worked_by_hand() -> None:
    assert iqm([0, 1, 2, 3, 1000]) == 2
    assert iqm([1, 2, 6]) == 3  # nothing is cut off three
    assert iqm([100, 0, 4, 5, 6, 7, 8, -50]) == 5.5
    for diverged in (float("nan"), float("-inf"), float("inf")):
        assert math.isnan(iqm([1, 2, 3, 4, diverged]))  # it would be cut off


@pytest.mark.parametrize("shape", [(3,), (5,), (10,), (5, 3)])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_intervals_are_scipys(shape: tuple[int, ...], confidence: float) -> None:
    scores = GENERATOR.normal(size=shape)
    tasks = (scores,) if scores.ndim == 1 else tuple(scores.T)
    scipys = stats.bootstrap(
        tasks,
        lambda *samples, axis: stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis),
        n_resamples=2_000,
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(3),
    ).confidence_interval
    found = iqm_interval(scores, confidence=confidence, seed=3)
    assert found == pytest.approx((scipys.low, scipys.high), rel=1e-9)


@pytest.mark.parametrize("shape", [(5, 1), (10, 3)])
def test_intervals_are_rliables(shape: tuple[int, int]) -> None:
    """rliable resamples the runs of each task by themselves and takes percentiles of the IQM."""
    scores = GENERATOR.normal(size=shape)
    runs, tasks = shape
    chosen = GENERATOR.integers(runs, size=(20_000, runs, tasks))
    resampled = scores[chosen, np.arange(tasks)]
    means = stats.trim_mean(resampled.reshape(len(chosen), -1), 0.25, axis=1)
    expected = np.percentile(means, [2.5, 97.5])
    found = iqm_interval(scores, resamples=20_000)
    assert found == pytest.approx(expected, abs=0.03 * scores.std())


def test_intervals_repeat_and_need_two_finite_scores() -> None:
    assert iqm_interval([1, 2, 5, 9]) == iqm_interval([1, 2, 5, 9])
    assert iqm_interval([3, 3, 3]) == (3, 3)
    assert all(math.isnan(end) for end in iqm_interval([1]))
    assert all(math.isnan(end) for end in iqm_interval([1, 2, float("nan")]))


@pytest.mark.parametrize("seeds", rarely([*COVERAGE], [min(COVERAGE)]))
def test_the_stated_coverage_is_what_a_simulation_finds(seeds: int) -> None:
    experiments = 1_500
    draws = np.random.default_rng(11).normal(size=(experiments, seeds))  # the true IQM is 0
    low, high = stats.bootstrap(
        (draws,),
        lambda sample, axis: stats.trim_mean(sample, 0.25, axis=axis),
        n_resamples=400,
        axis=-1,
        batch=50,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    covered = ((low <= 0) & (high >= 0)).mean()
    assert covered == pytest.approx(COVERAGE[seeds], abs=0.025)


def test_from_20_seeds_on_it_holds_although_some_seeds_fail() -> None:
    """Returns of CartPole of which a quarter fails: its two groups part at the quartile itself."""
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        good = np.minimum(500, rng.normal(470, 30, shape))
        return np.where(rng.random(shape) < 0.25, rng.normal(120, 60, shape), good)

    true = iqm(draw(1_000_000))
    low, high = stats.bootstrap(
        (draw(1_000, 20),),
        lambda sample, axis: stats.trim_mean(sample, 0.25, axis=axis),
        n_resamples=400,
        axis=-1,
        batch=50,
        method="percentile",
        random_state=rng,
    ).confidence_interval
    assert ((low <= true) & (high >= true)).mean() == pytest.approx(0.935, abs=0.02)


def test_few_seeds_are_warned_of() -> None:
    caution = interval_caution(5)
    assert "5 seeds are too narrow" in caution
    assert "73 % at 3, 90 % at 5, 93 % at 10, 94 % at 20 seeds" in caution
    assert interval_caution(9) and not interval_caution(10)


def test_the_median_is_one_of_the_values() -> None:
    assert median_index([5, 1, 3]) == 2
    assert median_index([4, 1, 2, 3]) == 2  # 2 and 3 are in the middle: the lower
    assert median_index([2, 2, 2]) == 1
    assert median_index([float("nan"), 1, 2]) == 1
