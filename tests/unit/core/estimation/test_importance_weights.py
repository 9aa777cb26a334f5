"""Importance weights, what an estimate can rest on, and intervals."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.recorded_mdp import HORIZON, Mdp
from trainables.core.errors import ConfigError
from trainables.core.estimation.behaviour_cloning import with_estimated_logp
from trainables.core.estimation.episodes import RecordedEpisodes, backward_sums
from trainables.core.estimation.importance_sampling import (
    ImportanceSampling,
    WeightedImportanceSampling,
)
from trainables.core.estimation.importance_weights import ImportanceWeights, warn_of_overlap
from trainables.core.estimation.intervals import NO_INTERVAL, bootstrap_interval, interval_of_mean

MDP = Mdp()


def uneven() -> RecordedEpisodes:
    """Three episodes of 2, 1 and 3 steps; their rows are not looked at."""
    rewards = np.array([1.0, 2.0, 10.0, 3.0, 4.0, 5.0])
    ends = np.array([False, True, True, False, False, False])
    logp = np.log(np.array([0.5, 0.5, 0.25, 0.5, 0.5, 0.5]))
    lengths = np.array([2, 1, 3])
    return RecordedEpisodes("episodes", None, np.arange(6), lengths, rewards, ends, logp, 0.5)  # type: ignore[arg-type]


def test_columns_of_uneven_episodes() -> None:
    recorded = uneven()
    assert recorded.padded(recorded.rewards).tolist() == [[1, 2, 0], [10, 0, 0], [3, 4, 5]]
    assert recorded.returns_to_go.tolist() == [2, 2, 10, 3 + 2 + 1.25, 6.5, 5]
    assert recorded.returns.tolist() == [2, 10, 6.25]
    part = recorded.part(np.array([2, 0]))
    assert part.rewards.tolist() == [3, 4, 5, 1, 2]
    assert part.lengths.tolist() == [3, 2]
    assert recorded.steps_of(np.array([1, 1])).tolist() == [2, 2]
    after = backward_sums(recorded, np.zeros(6), np.full(6, 0.5), np.array([8.0, 8.0, 8.0]))
    assert after.tolist() == [2, 4, 4, 1, 2, 4]


def test_products_stay_behind_an_end() -> None:
    target = np.log(np.array([1.0, 0.25, 0.5, 0.5, 0.5, 1.0]))
    weights = ImportanceWeights.of(uneven(), target)
    assert weights.ratios == pytest.approx(np.array([[2, 0.5, 1], [2, 1, 1], [1, 1, 2]]))
    assert weights.products == pytest.approx(np.array([[2, 1, 1], [2, 2, 2], [1, 1, 2]]))
    assert weights.of_episodes == pytest.approx(np.array([1, 2, 2]))
    assert weights.effective_sample_size == pytest.approx(25 / 9)


def test_weights_that_overflow_are_finite_in_the_estimates() -> None:
    recorded = replace(uneven(), logp=np.full(6, -700.0))
    weights = ImportanceWeights.of(recorded, np.zeros(6))
    assert np.isfinite(weights.products).all()
    assert weights.effective_sample_size == pytest.approx(1)  # the longest is e^700 times as likely
    large = ImportanceWeights(np.array([[2010.0], [2019.0], [2020.0]]))
    relative = np.exp([-10.0, -1.0, 0.0])
    assert large.relative_products[:, 0] == pytest.approx(relative)
    assert large.effective_sample_size == pytest.approx(relative.sum() ** 2 / (relative**2).sum())


def test_no_overlap_at_all() -> None:
    weights = ImportanceWeights.of(uneven(), np.full(6, -math.inf))
    assert weights.effective_sample_size == 0
    recorded = MDP.record(20, 0)
    target = MDP.target_policy(recorded)
    never = np.full(len(recorded.ids), -math.inf)

    class Never:
        def logp(self, _: RecordedEpisodes) -> np.ndarray:
            return never

    found = ImportanceSampling().evaluate(recorded, Never(), np.random.default_rng(0))  # type: ignore[arg-type]
    assert found["v_target"] == 0 and found["effective_sample_size"] == 0
    rng = np.random.default_rng(0)
    weighted = WeightedImportanceSampling().evaluate(recorded, Never(), rng)  # type: ignore[arg-type]
    assert math.isnan(weighted["v_target"]) and math.isnan(weighted["low"])
    assert target.is_discrete


def test_what_a_policy_never_does_was_not_recorded() -> None:
    recorded = replace(uneven(), logp=np.array([0.0, 0.0, -math.inf, 0.0, 0.0, 0.0]))
    with pytest.raises(ConfigError, match="the step in row 2 has the log-probability -inf"):
        ImportanceWeights.of(recorded, np.zeros(6))


def test_poor_overlap_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trainables"):
        assert not warn_of_overlap("dr", 60.0, 1000)
        assert not caplog.text
        assert warn_of_overlap("dr", 49.0, 1000)  # less than 5 %
        assert "the estimate of 'dr' rests on 49.0 of 1000 episodes" in caplog.text
        assert warn_of_overlap("dr", 9.0, 30)  # less than ten


def test_intervals() -> None:
    values = np.random.default_rng(0).normal(3, 2, 400)
    low, high = interval_of_mean(values, np.random.default_rng(1))
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.05)
    same = interval_of_mean(values, np.random.default_rng(1))
    assert same == (low, high)
    narrow = interval_of_mean(values, np.random.default_rng(1), confidence=0.5)
    assert narrow.high - narrow.low < 0.5 * (high - low)


def test_intervals_of_what_has_none() -> None:
    rng = np.random.default_rng(0)
    assert interval_of_mean(np.full(5, 2.5), rng) == (2.5, 2.5)
    assert all(map(math.isnan, interval_of_mean(np.array([1.0]), rng)))
    unknown = bootstrap_interval(lambda counts: np.full(len(counts), math.nan), 5, rng)
    assert unknown is NO_INTERVAL
    # Where some resamples say nothing the others do.
    low, high = bootstrap_interval(
        lambda counts: np.where(counts[:, 0] > 0, counts @ np.arange(9.0) / 9, math.nan), 9, rng
    )
    assert 1 < low < 4 < high < 7


def test_many_episodes_have_the_percentile_interval() -> None:
    values = np.random.default_rng(0).normal(size=5000)
    low, high = interval_of_mean(values, np.random.default_rng(1), num_resamples=200)
    assert low < values.mean() < high and high - low < 0.07


def test_estimated_probabilities_are_the_behaviours() -> None:
    recorded = MDP.record(800, 0, logp=False)
    target = MDP.target_policy(recorded)
    found = with_estimated_logp(recorded, target.policy)
    states = recorded.rows.observations(recorded.ids)
    actions = recorded.rows.read("actions", recorded.ids)
    errors = np.exp(found.logp) - MDP.behaviour[states, actions]
    assert np.abs(errors).mean() < 0.05
    known = MDP.record(10, 0)
    assert with_estimated_logp(known, target.policy) is known


def test_only_what_is_unknown_is_estimated() -> None:
    recorded = MDP.record(200, 0)
    logp = recorded.logp.copy()
    logp[: 100 * HORIZON] = math.nan
    policy = MDP.target_policy(recorded).policy
    found = with_estimated_logp(replace(recorded, logp=logp), policy)
    assert (found.logp[100 * HORIZON :] == recorded.logp[100 * HORIZON :]).all()
    assert np.isfinite(found.logp).all()


def test_a_few_random_steps_are_not_known_by_heart() -> None:
    """What is held out says when to stop: else their probabilities would be about one."""
    recorded = MDP.record(25, 0, logp=False)
    policy = MDP.target_policy(recorded).policy
    found = with_estimated_logp(recorded, policy)
    assert found.logp.mean() < -0.45  # the behaviour's own: about -0.67
