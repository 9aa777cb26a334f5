"""The last step of a search in the reference's own form: what Tune found, and play it."""

from pathlib import Path

import numpy as np
import pytest
from ray import tune

from trainables import Algorithm, Policy, PPOConfig
from trainables.ppo import PPO


@pytest.mark.usefixtures("ray_here")
def test_the_best_result_of_a_search_is_played(tmp_path: Path) -> None:
    config = PPOConfig().environment("CartPole-v1").training(lr=tune.grid_search([1e-3, 1e-4]))
    config.training(train_batch_size=128, minibatch_size=64, num_epochs=1)
    run_config = tune.RunConfig(
        storage_path=str(tmp_path),
        stop={"training_iteration": 1},
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
    )
    results = tune.Tuner("PPO", param_space=config, run_config=run_config).fit()
    best = results.get_best_result("episode_return_mean", "max")
    obs = np.zeros((2, 4), np.float32)
    expected = Policy.load(best.checkpoint).compute_actions(obs, explore=False)
    with Algorithm.from_checkpoint(best.checkpoint) as algorithm:
        assert isinstance(algorithm, PPO) and algorithm.iteration == 1
        assert (algorithm.compute_actions(obs, explore=False) == expected).all()
