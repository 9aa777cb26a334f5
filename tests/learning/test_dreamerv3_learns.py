"""DreamerV3 learns: CartPole in 30,000 steps. It takes minutes."""

import pytest
from learning_runs import greedy_return, train


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_cartpole() -> None:
    algo, _ = train("dreamerv3/cartpole", seed=0, num_env_steps=30_000)
    with algo:
        assert greedy_return(algo) >= 450
