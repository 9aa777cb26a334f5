"""DQN learns from a fixed source without an environment, and is evaluated in one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixed_source import OfflineDQN
from ray import tune

from trainables import Algorithm

SETTINGS: dict[str, Any] = {
    **{"seed": 1, "lr": 1e-3, "gamma": 0.98, "train_batch_size_per_learner": 64},
    **{"target_network_update_freq": 50, "model": {"fcnet_hiddens": [64, 64]}},
    **{"evaluation_config": {"env": "CartPole-v1"}, "evaluation_interval": 1},
    "min_train_timesteps_per_iteration": 64 * 500,
}
RETURN = "evaluation/episode_return_mean"


def test_it_resumes_to_the_bit(tmp_path: Path) -> None:
    with OfflineDQN(config={**SETTINGS, "min_train_timesteps_per_iteration": 64 * 20}) as whole:
        whole.train()
        saved = whole.save(str(tmp_path / "a"))
        expected, weights = whole.train(), whole.get_weights()["default_policy"]
    with Algorithm.from_checkpoint(saved, trust=["fixed_source:OfflineDQN"]) as resumed:
        assert resumed.train()[RETURN] == expected[RETURN]
        for name, value in resumed.get_weights()["default_policy"].items():
            assert np.array_equal(value, weights[name])


@pytest.mark.full("test_it_resumes_to_the_bit")
def test_it_plays_better_than_what_it_learns_from() -> None:
    with OfflineDQN(config=SETTINGS) as algo:
        results = [algo.train() for _ in range(2)]
    assert max(result[RETURN] for result in results) > 60  # of random play: 22


@pytest.mark.full("test_it_resumes_to_the_bit")
@pytest.mark.usefixtures("ray_here")
def test_under_tune(tmp_path: Path) -> None:
    run = tune.RunConfig(storage_path=str(tmp_path), stop={"num_updates_lifetime": 500}, verbose=0)
    results = tune.Tuner(OfflineDQN, param_space=SETTINGS, run_config=run).fit()
    assert not results.errors and results[0].metrics[RETURN] > 0
