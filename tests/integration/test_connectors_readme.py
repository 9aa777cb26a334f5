"""The example of the guide to connectors runs as it stands."""

import sys
from pathlib import Path

import numpy as np
import pytest
from page_blocks import blocks, write_files

from trainables import Policy

PAGE = "trainables/guides/connectors.md"


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [module] = write_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(blocks(PAGE, "python")[1], names)
    config = names["config"].training(train_batch_size_per_learner=256)  # type: ignore[attr-defined]
    with config.env_runners(num_envs_per_env_runner=4).debugging(seed=0).build() as algorithm:
        rollout = algorithm.sample()["default_policy"]
        assert np.unique(rollout.rewards).tolist() == [-1, 0]
        obs = rollout.obs[:5, 0]
        features = algorithm.get_policy().features(obs).numpy()
        expected = [obs[:, 0], obs[:, 2], np.sin(obs[:, 2]), np.cos(obs[:, 2])]
        np.testing.assert_allclose(features, np.stack(expected, 1), rtol=1e-5)
        assert algorithm.train()["episode_return_mean"] > 5
        algorithm.save(str(tmp_path / "checkpoint"))
        actions = algorithm.compute_actions(obs, explore=False)
    trust = ["my_connectors:without_velocities", "my_connectors:Periodic"]
    policy = Policy.load(tmp_path / "checkpoint", trust=trust)
    np.testing.assert_array_equal(policy.compute_actions(obs, explore=False), actions)
    del sys.modules[module]
