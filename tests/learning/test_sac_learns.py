"""SAC learns: published scores on small environments. Those marked slow take minutes."""

import pytest
from learning_runs import greedy_return, greedy_returns, interquartile_mean, train


@pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")
def test_pendulum() -> None:
    algo, _ = train("sac/pendulum", seed=0, num_env_steps=6_000)
    assert greedy_return(algo) >= -250


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("spec", "num_env_steps", "bar", "lowest"),
    [("sac/pendulum", 10_000, -180, -220), ("sac/cartpole", 30_000, 400, 300)],
)
def test_score_over_five_seeds(spec: str, num_env_steps: int, bar: float, lowest: float) -> None:
    scores = greedy_returns(spec, 5, num_env_steps)
    assert interquartile_mean(scores) >= bar
    assert scores.min() >= lowest
