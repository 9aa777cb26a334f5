"""APPO learns, from train batches that come again."""

import pytest
from learning_runs import greedy_returns, interquartile_mean, train

pytestmark = pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")


def test_cartpole() -> None:
    scores = greedy_returns("appo/cartpole", num_seeds=5, num_env_steps=120_000)
    assert interquartile_mean(scores) >= 400


def test_train_batches_come_again() -> None:
    algo, result = train("appo/cartpole", seed=0, num_env_steps=20_000)
    assert result["num_env_steps_trained_lifetime"] > 3.8 * algo.num_env_steps_sampled


def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("appo/cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50
