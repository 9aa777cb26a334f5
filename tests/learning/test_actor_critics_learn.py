"""A2C, IMPALA and APPO learn, also from fragments older than the weights, and from batches that
come again. PPO has a file of its own."""

import numpy as np
import pytest
from learning_runs import greedy_returns, interquartile_mean, train

of_ppo = pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")


@of_ppo
@pytest.mark.parametrize(
    ("name", "num_env_steps"), [("a2c", 30_000), ("impala", 40_000), ("appo", 30_000)]
)
def test_cartpole(name: str, num_env_steps: int) -> None:
    """On the way, where a mean over three seeds is about 220; without learning it is below 50."""
    returns = [
        train(f"{name}/cartpole", seed, num_env_steps)[1]["episode_return_mean"]
        for seed in range(3)
    ]
    assert np.mean(returns) >= 150


@of_ppo
@pytest.mark.parametrize("name", ["a2c", "impala", "appo"])
def test_a_policy_that_cannot_learn_fails_this_test(name: str) -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train(f"{name}/cartpole", seed=0, num_env_steps=10_000, lr=0.0)
    assert result["episode_return_mean"] < 50


@of_ppo
def test_train_batches_come_again() -> None:
    algo, result = train("appo/cartpole", seed=0, num_env_steps=20_000)
    assert result["num_env_steps_trained_lifetime"] > 3.8 * algo.num_env_steps_sampled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_seeds", "num_env_steps"),
    [("a2c", 6, 120_000), ("impala", 6, 150_000), ("appo", 5, 120_000)],
)
def test_score_over_seeds(name: str, num_seeds: int, num_env_steps: int) -> None:
    """Not of one seed: half way a policy's score swings from update to update."""
    assert interquartile_mean(greedy_returns(f"{name}/cartpole", num_seeds, num_env_steps)) >= 400
