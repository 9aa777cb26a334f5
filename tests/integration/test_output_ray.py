"""Env runners in actors record what they sample, each in files of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pyarrow.parquet as pq
import pytest
from ray import tune

from trainables import PPOConfig
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source

pytestmark = pytest.mark.usefixtures("ray_here")
SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_env_runners": 2,
    "num_envs_per_env_runner": 2,
    "train_batch_size_per_learner": 128,
    "minibatch_size": 128,
    "num_epochs": 1,
    "min_sample_timesteps_per_iteration": 500,
}


def episodes_in(folder: Path) -> list[Episode]:
    env = gym.make("CartPole-v1")
    return list(find_source(folder).episodes(DataSpaces(env.observation_space, env.action_space)))


@pytest.mark.parametrize(
    "more", [{}, pytest.param({"remote_worker_envs": True}, marks=pytest.mark.full)]
)
def test_all_that_was_sampled_is_recorded(more: dict[str, Any], tmp_path: Path) -> None:
    config = PPOConfig.from_dict({**SMALL, "output": str(tmp_path), **more})
    with config.build() as algo:
        result = algo.train()
    workers = {path.name.split("-")[1] for path in tmp_path.iterdir()}
    assert workers == {"worker1", "worker2"}
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".parquet"]
    found = episodes_in(tmp_path)
    assert sum(map(len, found)) == result["num_env_steps_sampled_lifetime"]
    ended = [episode for episode in found if episode.terminated or episode.truncated]
    assert len(ended) == result["num_episodes_lifetime"]


def test_a_killed_env_runner_loses_what_was_in_no_whole_file(tmp_path: Path) -> None:
    given = {**SMALL, "output": str(tmp_path), "restart_failed_env_runners": True}
    with PPOConfig.from_dict(given).build() as algo:
        algo.train()
        algo.save(str(tmp_path.parent / "checkpoint"))
        saved = sum(map(len, episodes_in(tmp_path)))
        assert saved > 0
        algo.env_runners._group.kill(1)
        assert algo.restore_env_runners() == [1]
        algo.train()
    names = {path.name.rsplit("-", 1)[0] for path in tmp_path.glob("*.parquet")}
    assert len(names) == 3  # the one that took its place has a name of its own
    found = episodes_in(tmp_path)
    assert sum(map(len, found)) > saved
    assert len({episode.episode_id for episode in found}) == len(found)


def test_a_trial_records_into_its_own_folder(tmp_path: Path) -> None:
    space = {**SMALL, "num_env_runners": 0, "output": "logdir", "output_max_rows_per_file": 200}
    tuner = tune.Tuner(
        "PPO",
        param_space=space,
        run_config=tune.RunConfig(
            name="x", storage_path=str(tmp_path), stop={"training_iteration": 1}
        ),
    )
    result = tuner.fit()[0]
    assert result.error is None
    folder = Path(result.path) / "output"
    rows = [pq.read_metadata(path).num_rows for path in folder.glob("*.parquet")]
    assert result.metrics is not None
    assert sum(rows) == result.metrics["num_env_steps_sampled_lifetime"]
    assert len(rows) > 1 and max(rows) <= 200
