"""DreamerV3 learns CartPole and Pendulum in 30,000 steps, a T-maze in 20,000; in minutes each."""

import pytest
from learning_runs import greedy_return, train


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("spec", "num_env_steps", "bar"),
    [("cartpole", 30_000, 450), ("pendulum", 30_000, -250), ("tmaze", 20_000, 0.95)],
)
def test_score_after_so_many_steps(spec: str, num_env_steps: int, bar: float) -> None:
    algo, _ = train(f"dreamerv3/{spec}", seed=0, num_env_steps=num_env_steps)
    with algo:
        assert greedy_return(algo) >= bar
