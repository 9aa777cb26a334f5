"""Drills with actors: a stranger's checkpoint that would run code in one, or start very many."""

from pathlib import Path

import pytest
import ray
from forged import forge_config
from small_ray import small_ray

from trainables import PPO, PPOConfig
from trainables.core.checkpoint import CheckpointError

VARIABLES = "extra_python_environs_for_worker"


@pytest.mark.full(
    "contracts/test_trust.py::test_no_setting_of_a_strangers_checkpoint_does_anything"
)
def test_variables_of_a_checkpoint_start_nothing_without_trust(tmp_path: Path) -> None:
    mark, folder = tmp_path / "ran", tmp_path / "checkpoint"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')\n")
    small = {"train_batch_size": 64, "minibatch_size": 64, "num_envs_per_env_runner": 1}
    with PPOConfig.from_dict({"env": "CartPole-v1", **small}).build() as algorithm:
        algorithm.save(str(folder))
    forge_config(folder, num_env_runners=1, **{VARIABLES: {"PYTHONPATH": str(tmp_path)}})
    with pytest.raises(CheckpointError, match=rf"{VARIABLES} = .*PYTHONPATH.*\['{VARIABLES}'\]"):
        PPO.from_checkpoint(folder)
    assert not ray.is_initialized()
    assert not mark.exists()
    with small_ray(num_cpus=2), PPO.from_checkpoint(folder, trust=[VARIABLES]):
        assert mark.exists()  # so it would have been noticed


def test_a_hundred_thousand_actors_are_not_started(tmp_path: Path) -> None:
    with PPOConfig().environment("CartPole-v1").build() as algorithm:
        algorithm.save(str(tmp_path))
    forge_config(tmp_path, num_env_runners=100_000, num_cpus_per_env_runner=0)
    with pytest.raises(CheckpointError, match=r"num_env_runners = 100000 \(processes.*: 0 to 64"):
        PPO.from_checkpoint(tmp_path)
    assert not ray.is_initialized()
