"""PPO learns: published scores on small environments. Those marked slow take minutes."""

import numpy as np
import pytest
from scipy.stats import trim_mean

from experiments.spec import load_spec
from trainables import PPO
from trainables.runtime.evaluation import evaluate_policy


def train(spec_name: str, seed: int, num_env_steps: int, **changes: object) -> tuple[PPO, dict]:
    spec = load_spec(f"experiments/tuned/ppo/{spec_name}.yaml")
    algo = PPO(config={**spec.config, "seed": seed, **changes})
    while algo.num_env_steps_sampled < num_env_steps:
        result = algo.train()
    return algo, result


def greedy_return(algo: PPO) -> float:
    env = algo.config.env
    return evaluate_policy(algo.get_policy(), env, num_episodes=100, seed=12345).return_mean


def test_cartpole() -> None:
    algo, result = train("cartpole", seed=0, num_env_steps=60_000)
    assert result["episode_return_mean"] >= 200
    assert greedy_return(algo) >= 450


def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50


@pytest.mark.slow
def test_cartpole_over_ten_seeds() -> None:
    scores = np.array([greedy_return(train("cartpole", s, 100_000)[0]) for s in range(10)])
    print("CartPole-v1 @100k, greedy, 100 episodes:", scores)
    assert trim_mean(scores, 0.25) >= 475  # the interquartile mean
    assert scores.min() >= 400


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "bar"), [("pendulum", -200.0), ("acrobot", -95.0)])
def test_training_return_over_five_seeds(spec: str, bar: float) -> None:
    returns = [train(spec, s, 150_000)[1]["episode_return_mean"] for s in range(5)]
    print(f"{spec} @150k, training return of the last 100 episodes:", np.round(returns, 1))
    assert np.mean(returns) >= bar
