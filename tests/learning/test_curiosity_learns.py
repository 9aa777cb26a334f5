"""Rewards for what is new find what chance does not: PPO and DQN on a lake, PPO on MountainCar."""

import pytest
from learning_runs import greedy_return, train


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("spec", "num_env_steps", "bar"),
    [
        ("ppo/frozenlake", 400_000, 1.0),
        ("dqn/frozenlake", 250_000, 1.0),
        ("ppo/mountaincar", 500_000, -130),
    ],
)
def test_score_after_so_many_steps(spec: str, num_env_steps: int, bar: float) -> None:
    algo, _ = train(spec, seed=0, num_env_steps=num_env_steps)
    with algo:
        assert greedy_return(algo) >= bar
