"""The reference's samples of BC and MARWIL run as they are written there, imports translated.

Their data are recorded here, and a sweep without a stop criterion gets one.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from offline_fakes import CARTPOLE, balancing, played_episodes
from ray import tune

from trainables import BCConfig, MARWILConfig
from trainables.runtime.offline.writers import make_writer

pytestmark = pytest.mark.usefixtures("ray_here")
NUM_CPUS = 2
STOP = {"training_iteration": 1}
SPACES = {
    "observation_space": gym.spaces.Box(
        np.array([-4.8, -np.inf, -0.41887903, -np.inf]),
        np.array([4.8, np.inf, 0.41887903, np.inf]),
        shape=(4,),
        dtype=np.float32,
    ),
    "action_space": gym.spaces.Discrete(2),
}


def recorded(folder: Path, format_: str) -> Path:
    writer = make_writer(folder, CARTPOLE, format=format_)
    for episode in played_episodes(8, 0, balancing, 0.2):
        writer.write(episode)
    writer.close()
    return folder


@pytest.fixture(scope="module")
def large_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of JSON lines."""
    [file] = recorded(tmp_path_factory.mktemp("json"), "json").glob("*.json*")
    return str(file)


@pytest.fixture(scope="module")
def data_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Parquet files."""
    return recorded(tmp_path_factory.mktemp("cartpole") / "cartpole-v1_large", "parquet")


def test_bc_is_built_and_trained(large_json: str) -> None:
    config = BCConfig().training(lr=0.00001, gamma=0.99)
    config = config.offline_data(input_=large_json)

    algo = config.build()
    result = algo.train()
    algo.stop()
    assert np.isfinite(result["learner/default_policy/policy_loss"])


def test_bc_is_tuned(large_json: str, tmp_path: Path) -> None:
    """With `beta=0.75`, which makes it MARWIL."""
    config = BCConfig()
    assert config.beta == 0.0
    config.training(lr=tune.grid_search([0.001, 0.0001]), beta=0.75)
    config.offline_data(input_=large_json)
    config.environment(env="CartPole-v1")
    results = tune.Tuner(
        "BC",
        param_space=config.to_dict(),
        run_config=tune.RunConfig(stop=STOP, storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert not results.errors and len(results) == 2
    weights = [r.metrics["learner/default_policy/mean_weight"] for r in results]
    assert all(weight != 1.0 for weight in weights)


def test_marwil_is_built_and_trained(data_path: Path) -> None:
    config = MARWILConfig()
    config.api_stack(
        enable_rl_module_and_learner=True,
        enable_env_runner_and_connector_v2=True,
    )
    config.environment(**SPACES)
    config.training(beta=1.0, lr=1e-5, gamma=0.99, train_batch_size_per_learner=2000)
    config.offline_data(input_=[data_path.as_posix()], dataset_num_iters_per_learner=1)

    algo = config.build()
    result = algo.train()
    algo.stop()
    assert result["num_updates_lifetime"] == 1
    assert result["num_env_steps_trained_lifetime"] == 2000


def test_marwil_is_tuned_without_an_environment(data_path: Path, tmp_path: Path) -> None:
    config = MARWILConfig()
    config.api_stack(
        enable_rl_module_and_learner=True,
        enable_env_runner_and_connector_v2=True,
    )
    assert f"beta: {config.beta}" == "beta: 1.0"
    config.training(lr=tune.grid_search([1e-3, 1e-4]), beta=0.75, train_batch_size_per_learner=2000)
    config.offline_data(input_=[data_path.as_posix()], dataset_num_iters_per_learner=1)
    config.environment(**SPACES)
    tuner = tune.Tuner(
        "MARWIL",
        param_space=config,
        run_config=tune.RunConfig(stop=STOP, storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors and len(results) == 2
    losses = [r.metrics["learner/default_policy/policy_loss"] for r in results]
    assert np.isfinite(losses).all()
