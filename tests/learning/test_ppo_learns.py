"""PPO learns: published scores on small environments. Those marked slow take minutes."""

import numpy as np
import pytest
from learning_runs import greedy_return, greedy_returns, interquartile_mean, train


def test_cartpole() -> None:
    algo, result = train("ppo/cartpole", seed=0, num_env_steps=60_000)
    assert result["episode_return_mean"] >= 200
    assert greedy_return(algo) >= 450


def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("ppo/cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50


@pytest.mark.slow
def test_cartpole_over_ten_seeds() -> None:
    scores = greedy_returns("ppo/cartpole", 10, 100_000)
    assert interquartile_mean(scores) >= 475
    assert scores.min() >= 400


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "bar"), [("pendulum", -200.0), ("acrobot", -95.0)])
def test_training_return_over_five_seeds(spec: str, bar: float) -> None:
    returns = [train(f"ppo/{spec}", s, 150_000)[1]["episode_return_mean"] for s in range(5)]
    print(f"{spec} @150k, training return of the last 100 episodes:", np.round(returns, 1))
    assert np.mean(returns) >= bar
