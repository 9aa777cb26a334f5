"""DreamerV3 sees, predicts and trains on images of every shape, order and kind of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiers import rarely

from trainables import DreamerV3, DreamerV3Config, Policy
from trainables.core.config.config import DEFAULT_MODULE_ID as MODULE
from trainables.core.data.batch import tree_of
from trainables.core.errors import ConfigError
from trainables.dreamerv3.losses import observe

TINY: dict[str, Any] = {
    "env": "random_env:RandomEnv",
    "seed": 3,
    "model_size": "nano",
    "batch_size_B": 2,
    "batch_length_T": 4,
    "horizon_H": 2,
    "training_ratio": 1,
    "num_envs_per_env_runner": 2,
    "num_steps_sampled_before_learning_starts": 8,
    "min_sample_timesteps_per_iteration": 24,
    "replay_buffer_config": {"capacity": 200},
}


def pixels(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255, shape, np.uint8)


def floats(*shape: int, low: float = 0.0, high: float = 1.0) -> gym.spaces.Box:
    return gym.spaces.Box(low, high, shape, np.float32)


SPACES: dict[str, gym.Space] = {
    "atari": pixels(84, 84, 4),
    "atari_channels_first": pixels(4, 84, 84),
    "author": pixels(64, 64, 3),
    "author_channels_first": pixels(3, 64, 64),
    "author_of_atari": pixels(96, 96, 1),
    "grey": pixels(64, 64, 1),
    "grey_channels_first": pixels(1, 84, 84),
    "small": pixels(42, 42, 1),
    "minatar": gym.spaces.Box(0, 1, (10, 10, 4), np.bool_),
    "minatar_many_channels": gym.spaces.Box(0, 1, (10, 10, 10), np.bool_),
    "minigrid": pixels(7, 7, 3),
    "oblong": pixels(30, 45, 3),
    "odd": pixels(35, 15, 3),
    "one_pixel": pixels(1, 1, 1),
    "line": pixels(1, 40, 3),
    "floats": floats(64, 64, 3),
    "signed_floats": floats(3, 20, 20, low=-1.0),
    "unbounded_floats": floats(12, 12, 2, low=-np.inf, high=np.inf),
    "doubles": gym.spaces.Box(0.0, 1.0, (16, 16, 3), np.float64),
    "half": gym.spaces.Box(0.0, 1.0, (16, 16, 3), np.float16),
    "integers": gym.spaces.Box(0, 10, (9, 9, 2), np.int64),
    "bytes_of_codes": gym.spaces.Box(0, 10, (7, 7, 3), np.uint8),
    "image_and_vector": gym.spaces.Dict(
        {"camera": pixels(64, 64, 3), "joints": floats(5, low=-np.inf, high=np.inf)}
    ),
    "two_images": gym.spaces.Dict({"left": pixels(32, 32, 3), "right": floats(1, 20, 20)}),
    "image_and_choice": gym.spaces.Tuple((pixels(16, 16, 3), gym.spaces.Discrete(4))),
    "flat_grey": pixels(20, 20),  # of two axes: a vector
}


AT_FIRST = (
    *("atari", "author_channels_first", "minatar", "oblong", "one_pixel", "half"),
    *("signed_floats", "unbounded_floats", "image_and_vector", "flat_grey"),
)


@pytest.mark.parametrize("name", rarely([*SPACES], AT_FIRST))
def test_one_iteration(name: str, tmp_path: Path) -> None:
    spaces = {"observation_space": SPACES[name], "action_space": gym.spaces.Discrete(3)}
    with DreamerV3(TINY | {"env_config": spaces}) as algo:
        result = algo.train()
        assert algo.num_updates > 0
        losses = {key: value for key, value in result.items() if key.endswith("_loss")}
        assert np.isfinite(list(losses.values())).all(), losses
        trained = algo.get_policy()
        for key, weight in trained.module.state_dict().items():
            assert weight.isfinite().all(), key
        check_predictions(algo)
        loaded = Policy.load(algo.save(str(tmp_path)))
    SPACES[name].seed(5)
    obs = SPACES[name].sample()
    one, other = (
        policy.compute_single_action(obs, None, explore=False) for policy in (trained, loaded)
    )
    assert one.actions == other.actions


def check_predictions(algo: DreamerV3) -> None:
    """Each part of an observation is predicted in the shape that it has."""
    batch = algo.prepare(algo.get_policy(), algo.experience.draw(MODULE, 1, beta=1.0).columns)
    module: Any = algo.get_policy().module
    with torch.no_grad():
        states = observe(module, batch, torch.Generator().manual_seed(0)).latents.features
        predicted = module.decoder(states)
    features: Any = tree_of(batch, "features")
    for key, part in predicted.items():
        assert part.shape == features[key].shape and part.isfinite().all(), key


def test_frames_are_not_stacked() -> None:
    """The world model remembers them: of a game, too, it sees one at a time."""
    assert DreamerV3Config(env="ALE/Pong-v5").resolve().num_frames == 1
    assert DreamerV3Config(env="ALE/Pong-v5", frame_stack=1).resolve().num_frames == 1
    with pytest.raises(ConfigError, match=r"frame_stack = 4.*world model remembers"):
        DreamerV3Config(env="ALE/Pong-v5", frame_stack=4).validate()
