"""DreamerV3 learns CartPole and Pendulum in 30,000 steps. Each takes minutes."""

import pytest
from learning_runs import greedy_return, train


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("spec", "bar"), [("cartpole", 450), ("pendulum", -250)])
def test_score_after_thirty_thousand_steps(spec: str, bar: float) -> None:
    algo, _ = train(f"dreamerv3/{spec}", seed=0, num_env_steps=30_000)
    with algo:
        assert greedy_return(algo) >= bar
