"""QMIX finds what a sum of the agents' values cannot say: the two-step game, over five seeds."""

from __future__ import annotations

import pytest

from trainables import QMIXConfig


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("mixer", "best"), [("qmix", 8.0), ("vdn", 7.0)])
def test_the_two_step_game(mixer: str, best: float, seed: int) -> None:
    """With epsilon 1 throughout, as in the paper; VDN is the control."""
    config = QMIXConfig().environment("two_step_game").training(mixer=mixer, epsilon=1.0)
    config.training(num_steps_sampled_before_learning_starts=200, training_intensity=8)
    config.training(target_network_update_freq=200, model={"fcnet_hiddens": [64]}, dueling=False)
    config.env_runners(num_envs_per_env_runner=8).evaluation(evaluation_duration=4)
    with config.debugging(seed=seed).build() as algo:
        while algo.num_env_steps_sampled < 6000:
            algo.train()
        assert algo.evaluate()["episode_return_mean"] == best
