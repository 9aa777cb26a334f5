"""Estimators on an MDP whose values are known: bias, errors, and how often intervals hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.recorded_mdp import ACTIONS, GAMMA, HORIZON, Mdp
from trainables.core.estimation.direct_method import DirectMethod
from trainables.core.estimation.doubly_robust import DoublyRobust
from trainables.core.estimation.evaluator import Estimate
from trainables.core.estimation.importance_sampling import (
    ImportanceSampling,
    WeightedImportanceSampling,
)

MDP = Mdp()
TRUTH = MDP.true_value()
NOTHING_LEARNED = {"num_updates": 5, "k": 2, "q_model_config": {"fcnet_hiddens": []}}
TABLE = {"num_updates": 300, "lr": 0.03, "q_model_config": {"fcnet_hiddens": []}}


def estimate(estimator: Any, num_episodes: int, seed: int, **options: Any) -> Estimate:
    recorded = MDP.record(num_episodes, seed)
    rng = np.random.default_rng(1000 + seed)
    found: Estimate = estimator.of(options).estimate(recorded, MDP.target_policy(recorded), rng)
    return found


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        pytest.param(
            ImportanceSampling,
            {"per_decision": False, "num_resamples": 10},
            marks=pytest.mark.full,
        ),
        (ImportanceSampling, {"per_decision": True, "num_resamples": 10}),
        pytest.param(
            DoublyRobust, {**NOTHING_LEARNED, "num_resamples": 10}, marks=pytest.mark.full
        ),
    ],
)
def test_unbiased_over_200_data_sets(estimator: Any, options: dict[str, Any]) -> None:
    # The Q-function of the doubly robust one knows nothing: its bias would be that of the fit.
    values = np.array([estimate(estimator, 30, seed, **options).value for seed in range(200)])
    standard_error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - TRUTH) < 3 * standard_error
    assert standard_error < 0.05  # else anything would be within three of them


def test_the_behaviour_policy_is_worth_something_else() -> None:
    """So what is above can fail: who took its returns for the target's would be seen."""
    behaviour = float(MDP.values(MDP.behaviour)[0][:2].mean())
    assert abs(behaviour - TRUTH) > 0.2


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (WeightedImportanceSampling, {"num_resamples": 10}),
        (WeightedImportanceSampling, {"per_decision": False, "num_resamples": 10}),
        pytest.param(DirectMethod, TABLE, marks=pytest.mark.full),
    ],
)
def test_errors_shrink_with_more_episodes(estimator: Any, options: dict[str, Any]) -> None:
    def error(num_episodes: int, repeats: int) -> float:
        found = [estimate(estimator, num_episodes, s, **options).value for s in range(repeats)]
        return float(np.sqrt(np.mean(np.square(np.array(found) - TRUTH))))

    few, many = error(25, 8), error(1600, 8)
    assert many < 0.4 * few  # by the square root of n it would be an eighth
    assert many < 0.1


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (WeightedImportanceSampling, {}),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in [
                (ImportanceSampling, {}),
                (ImportanceSampling, {"per_decision": False}),
                (WeightedImportanceSampling, {"per_decision": False}),
                (DoublyRobust, NOTHING_LEARNED),
            ]
        ),
    ],
)
def test_intervals_of_95_percent_hold(estimator: Any, options: dict[str, Any]) -> None:
    intervals = [
        estimate(estimator, 200, seed, num_resamples=400, **options).interval for seed in range(300)
    ]
    held = np.mean([low <= TRUTH <= high for low, high in intervals])
    assert 0.90 <= held <= 0.98


def test_intervals_of_the_direct_method_are_of_refits() -> None:
    found = estimate(DirectMethod, 200, 0, **{**TABLE, "num_updates": 100, "num_refits": 4})
    low, high = found.interval
    assert low < found.value < high
    assert high - low < 1.5
    unfitted = estimate(DirectMethod, 50, 0, num_updates=5)
    assert all(math.isnan(end) for end in unfitted.interval)


def test_direct_method_finds_the_exact_value_of_much_data() -> None:
    assert estimate(DirectMethod, 4000, 0, **TABLE).value == pytest.approx(TRUTH, abs=0.06)


def test_q_regression_finds_it_too() -> None:
    options = {**TABLE, "q_model_type": "qreg", "num_updates": 800, "lr": 0.02}
    assert estimate(DirectMethod, 4000, 0, **options).value == pytest.approx(TRUTH, abs=0.1)


@pytest.mark.full("test_errors_shrink_with_more_episodes")
def test_doubly_robust_varies_less_than_importance_sampling() -> None:
    doubly = [estimate(DoublyRobust, 100, s, **TABLE, k=2).value for s in range(10)]
    plain = [estimate(ImportanceSampling, 100, s).value for s in range(10)]
    assert np.std(doubly) < 0.8 * np.std(plain)


class TestSlowLoops:
    """What the estimators compute, by loops that a reader can check."""

    RECORDED = MDP.record(7, 5)
    STATES = RECORDED.rows.observations(RECORDED.ids).reshape(7, HORIZON)
    DONE = RECORDED.rows.read("actions", RECORDED.ids).reshape(7, HORIZON)

    def ratio(self, episode: int, step: int) -> float:
        state, action = self.STATES[episode, step], self.DONE[episode, step]
        return float(MDP.target[state, action] / MDP.behaviour[state, action])

    def reward(self, episode: int, step: int) -> float:
        return float(self.RECORDED.rewards[episode * HORIZON + step])

    def value(self, estimator: Any, **options: Any) -> float:
        rng, target = np.random.default_rng(0), MDP.target_policy(self.RECORDED)
        found = estimator.of(options).estimate(self.RECORDED, target, rng)
        return float(found.value)

    def test_per_decision(self) -> None:
        total = 0.0
        for episode in range(7):
            weight = 1.0
            for step in range(HORIZON):
                weight *= self.ratio(episode, step)
                total += GAMMA**step * weight * self.reward(episode, step)
        assert self.value(ImportanceSampling) == pytest.approx(total / 7, rel=1e-5)

    def test_of_whole_episodes(self) -> None:
        total = 0.0
        for episode in range(7):
            weight = math.prod(self.ratio(episode, step) for step in range(HORIZON))
            total += weight * sum(GAMMA**t * self.reward(episode, t) for t in range(HORIZON))
        found = self.value(ImportanceSampling, per_decision=False)
        assert found == pytest.approx(total / 7, rel=1e-5)

    def test_weighted_per_decision(self) -> None:
        total = 0.0
        for step in range(HORIZON):
            weights = [
                math.prod(self.ratio(episode, t) for t in range(step + 1)) for episode in range(7)
            ]
            rewards = [self.reward(episode, step) for episode in range(7)]
            total += GAMMA**step * float(np.dot(weights, rewards)) / sum(weights)
        assert self.value(WeightedImportanceSampling) == pytest.approx(total, rel=1e-5)

    def test_doubly_robust(self) -> None:
        from trainables.core.estimation.doubly_robust import doubly_robust_values

        rng = np.random.default_rng(1)
        table = rng.normal(size=(len(MDP.reward), ACTIONS))

        class Table:
            def q_values(self, ids: np.ndarray) -> np.ndarray:
                rows = TestSlowLoops.RECORDED.rows
                found: np.ndarray = table[rows.observations(ids), rows.read("actions", ids)]
                return found

            def state_values(self, ids: np.ndarray) -> np.ndarray:
                states = TestSlowLoops.RECORDED.rows.observations(ids)
                found: np.ndarray = (MDP.target[states] * table[states]).sum(-1)
                return found

        ratios = np.array([[self.ratio(e, t) for t in range(HORIZON)] for e in range(7)])
        found = doubly_robust_values(self.RECORDED, ratios, Table())
        for episode in range(7):
            value = 0.0  # behind a terminal state
            for step in reversed(range(HORIZON)):
                state, action = self.STATES[episode, step], self.DONE[episode, step]
                error = self.reward(episode, step) + GAMMA * value - table[state, action]
                value = MDP.target[state] @ table[state] + self.ratio(episode, step) * error
            assert found[episode] == pytest.approx(value)


def test_exact_q_makes_doubly_robust_exact_in_expectation() -> None:
    """With exact values only the noise of rewards is left, a small part of the returns' spread."""
    from trainables.core.estimation.doubly_robust import doubly_robust_values
    from trainables.core.estimation.importance_weights import ImportanceWeights

    recorded = MDP.record(500, 9)
    target = MDP.target_policy(recorded)
    v, q = MDP.values(MDP.target)

    class Exact:
        def q_values(self, ids: np.ndarray) -> np.ndarray:
            rows = recorded.rows
            found: np.ndarray = q[rows.observations(ids), rows.read("actions", ids)]
            return found

        def state_values(self, ids: np.ndarray) -> np.ndarray:
            found: np.ndarray = v[recorded.rows.observations(ids)]
            return found

    weights = ImportanceWeights.of(recorded, target.logp(recorded))
    values = doubly_robust_values(recorded, weights.ratios, Exact())
    assert values.mean() == pytest.approx(TRUTH, abs=0.1)
    assert values.std() < 0.75 * recorded.returns.std()
