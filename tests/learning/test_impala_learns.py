"""IMPALA learns, also from fragments that are older than its weights."""

import pytest
from learning_runs import greedy_returns, interquartile_mean, train

pytestmark = pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")


def test_cartpole() -> None:
    """Not of one seed: half way a policy's score swings from update to update."""
    scores = greedy_returns("impala/cartpole", num_seeds=6, num_env_steps=150_000)
    assert interquartile_mean(scores) >= 400


def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("impala/cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50
