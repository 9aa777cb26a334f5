"""Exploration over action values: frequencies, and log-probabilities that agree with them."""

from typing import Any

import numpy as np
import pytest
import torch
from fakes import EndlessEnv
from torch import distributions as td

from trainables import DQN, Policy
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.learning.schedules import scheduled

Q = torch.tensor([0.0, 1.0, -1.0, 0.5])
DRAWS = 200_000


def explorer(epsilon: float, temperature: float = 0.0) -> EpsilonGreedy:
    distribution = EpsilonGreedy(4, temperature)
    distribution.epsilon = epsilon
    return distribution


CASES = [(0.3, 0.0), (1.0, 0.0), (0.0, 0.7), (0.2, 0.5), (0.0, 0.0)]


@pytest.mark.parametrize(("epsilon", "temperature"), CASES)
def test_frequencies(epsilon: float, temperature: float) -> None:
    distribution = explorer(epsilon, temperature)
    draws = distribution.sample(Q.expand(DRAWS, 4), torch.Generator().manual_seed(1))
    greedy = torch.tensor([0.0, 1.0, 0.0, 0.0])
    chosen = (Q / temperature).softmax(0) if temperature else greedy
    expected = epsilon / 4 + (1 - epsilon) * chosen
    shares = draws.bincount(minlength=4) / DRAWS
    assert (shares - expected).abs().max() < 5 * (0.25 / DRAWS) ** 0.5  # five standard errors
    torch.testing.assert_close(distribution.probabilities(Q), expected)


def test_rows_are_drawn_independently() -> None:
    """One draw decides whether and what: neither may depend on the row before."""
    draws = explorer(0.5).sample(Q.expand(DRAWS, 4), torch.Generator().manual_seed(2))
    pairs = (draws[:-1] * 4 + draws[1:]).bincount(minlength=16) / (DRAWS - 1)
    shares = draws.bincount(minlength=4) / DRAWS
    assert (pairs - torch.outer(shares, shares).flatten()).abs().max() < 0.005


@pytest.mark.parametrize(("epsilon", "temperature"), CASES[:4])
def test_logp_entropy_and_divergence_are_those_of_the_probabilities(
    epsilon: float, temperature: float
) -> None:
    distribution = explorer(epsilon, temperature)
    p, q = torch.randn(8, 4).double(), torch.randn(8, 4).double()
    mine, theirs = (td.Categorical(probs=distribution.probabilities(x)) for x in (p, q))
    for action in range(4):
        actions = torch.full((8,), action)
        torch.testing.assert_close(distribution.logp(p, actions), mine.log_prob(actions))
    torch.testing.assert_close(distribution.entropy(p), mine.entropy())
    torch.testing.assert_close(distribution.kl(p, q), td.kl_divergence(mine, theirs))
    assert (distribution.probabilities(p).sum(-1) - 1).abs().max() < 1e-6


def test_what_greedy_actions_never_do_is_finite() -> None:
    distribution = explorer(0.0)
    logp, entropy = distribution.logp_and_entropy(Q.expand(2, 4), torch.tensor([0, 1]))
    assert logp[0] < -80 and logp[1] == 0 and entropy.tolist() == [0, 0]
    assert distribution.kl(Q, -Q).isfinite()


@pytest.mark.parametrize(("epsilon", "temperature"), CASES)
def test_the_mode_is_the_best_action(epsilon: float, temperature: float) -> None:
    assert explorer(epsilon, temperature).mode(Q).item() == 1


SMALL: dict[str, Any] = {
    "env": EndlessEnv,
    "seed": 1,
    "num_envs_per_env_runner": 4,
    "model": {"fcnet_hiddens": [8]},
    "num_steps_sampled_before_learning_starts": 10_000,
}


def test_the_schedule_counts_environment_steps_and_reaches_the_env_runner() -> None:
    schedule = [[0, 1.0], [100, 0.2]]
    with DQN(SMALL | {"epsilon": schedule, "rollout_fragment_length": 3}) as algo:
        for _ in range(15):
            expected = scheduled(schedule, algo.num_env_steps_sampled)
            algo.training_step()
            policy: Any = algo.env_runners.local_env_runner.policy  # type: ignore[union-attr]
            assert policy.distribution.epsilon == expected
        assert algo.num_env_steps_sampled > 100 and expected == 0.2


def sampled_actions(**settings: Any) -> np.ndarray:
    """What the env runner did in 2,000 steps of a network that knows no state from another."""
    with DQN(SMALL | {"rollout_fragment_length": 500, **settings}) as algo:
        taken: list[np.ndarray] = []
        sample = algo.sample

        def recording() -> Any:
            rollouts = sample()
            rollout = rollouts["default_policy"]
            taken.append(rollout.actions[rollout.valid])
            return rollouts

        algo.sample = recording  # type: ignore[method-assign]
        algo.training_step()
        best = int(algo.compute_single_action(np.ones(1, np.float32), explore=False))
    return taken[0] == best


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"epsilon": 1.0}, 0.5),
        ({"epsilon": 0.4}, 0.8),
        ({"epsilon": 0.0}, 1.0),
        ({"epsilon": 0.4, "explore": False}, 1.0),
        ({"epsilon": 0.0, "categorical_distribution_temperature": 1e6}, 0.5),
        ({"noisy": False}, 0.5),  # the default's schedule starts at 1
    ],
)
def test_settings_decide_how_often_the_best_action_is_taken(
    settings: dict[str, Any], share: float
) -> None:
    best = sampled_actions(**settings)
    assert abs(best.mean() - share) <= 5 * (share * (1 - share) / len(best)) ** 0.5


def test_epsilon_travels_with_the_policys_state() -> None:
    spaces = (EndlessEnv.observation_space, EndlessEnv.action_space)
    one, two = (Policy(*spaces, module={"type": "q_network"}, seed=0) for _ in range(2))
    one.set_exploration(epsilon=0.125)
    two.set_state(one.get_state())
    distribution: Any = two.distribution
    assert distribution.epsilon == 0.125 and two.get_state()["exploration"] == {"epsilon": 0.125}
