"""Replay of observations of Dict and Tuple spaces: records in the ring, leaves in the batches."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import RecordEnv
from replay_cases import SPACE, Stream, make_buffer

from trainables import Algorithm, DQNConfig, SACConfig
from trainables.core.checkpoint import load_state, save_state
from trainables.core.data.batch import Batch, Rollout, tree_of
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.runtime.replay.buffer import ReplayBuffer
from trainables.runtime.replay.stores import make_observation_store

BOX, IMAGE = gym.spaces.Box, gym.spaces.Box(0, 255, (2, 3, 1), np.uint8)
DICT = gym.spaces.Dict(
    {
        "image": IMAGE,
        "where": gym.spaces.Dict({"slot": gym.spaces.Discrete(9), "t": BOX(0, 255, (1,))}),
        "free": BOX(-np.inf, np.inf, (2,), np.float64),
    }
)
LAYOUT = ObservationLayout(DICT)


def record(obs: np.ndarray) -> np.ndarray:
    """Observations (slot, episode, step, is_final) `[..., 4]` as records of `DICT`."""
    rows = LAYOUT.empty(obs.shape[:-1])
    rows["image"] = obs[..., 2, None, None, None]
    rows["where/slot"], rows["where/t"] = obs[..., 0], obs[..., 2:3]
    rows["free"] = obs[..., [1, 3]]
    return rows


def plain(batch: Batch, name: str) -> np.ndarray:
    """Undoes `record`; what is stored twice must agree."""
    leaves = tree_of(batch, name)
    assert isinstance(leaves, dict) and leaves["image"].dtype == torch.uint8
    np.testing.assert_array_equal(leaves["image"][..., 1, 2, 0], leaves["where/t"][..., 0])
    slot, t, free = leaves["where/slot"], leaves["where/t"], leaves["free"]
    return np.stack([slot, free[..., 0], t[..., 0], free[..., 1]], -1)


def fill(space: gym.Space, **settings: Any) -> ReplayBuffer:
    """The same rollouts, with seams, padding and shorter columns, in either form."""
    rng = np.random.default_rng(0)
    stream, buffer = Stream(3, rng), make_buffer(3, 0, space, capacity=60, **settings)
    for _ in range(12):
        rollout = stream.rollout([int(n) for n in rng.integers(1, 9, 3)], seam=[1])
        if space is DICT:
            rollout.obs = record(rollout.obs)
        buffer.add(rollout)
    return buffer


@pytest.mark.parametrize("storage", ["native", "uint8", "compressed"])
def test_records_are_drawn_as_plain_observations_are(tmp_path: Path, storage: str) -> None:
    """Transitions, sequences, and both from a checkpoint."""
    simple, nested = fill(SPACE), fill(DICT, storage=storage)
    restored = make_buffer(3, 1, DICT, capacity=60, storage=storage)
    save_state(tmp_path, "replay", nested.get_state())
    for buffer in (nested, restored):
        if buffer is restored:
            restored.set_state(load_state(tmp_path, "replay"))
            simple = fill(SPACE)
        expected, found = (b.sample(200, gamma=0.9, n_step=3) for b in (simple, buffer))
        for name in ("obs", "next_obs"):
            np.testing.assert_array_equal(plain(found, name), expected[name])
        np.testing.assert_array_equal(found["actions"], expected["actions"])
        expected, found = (b.sample_sequences(20, 4) for b in (simple, buffer))
        np.testing.assert_array_equal(plain(found, "obs"), expected["obs"])


def test_256_levels_are_for_floats_with_bounds_alone() -> None:
    store = make_observation_store("uint8", LAYOUT, 10)
    rows = record(np.array([[3, 0.123, 77.4, 1]]))  # of 255 levels from 0 to 255 is 77 the nearest
    store.write(np.array([4]), rows)
    read = store.read(np.array([4]))
    assert read["where/t"] == 77 and read["free"].tolist() == [[0.123, 1.0]]
    assert read["image"].max() == 77 and read["where/slot"] == 3
    native = make_observation_store("native", LAYOUT, 10)
    assert store.nbytes == 10 * (6 + 8 + 1 + 16) < native.nbytes
    free = gym.spaces.Dict({"a": BOX(-np.inf, np.inf, (2,)), "b": gym.spaces.Discrete(3)})
    with pytest.raises(ConfigError, match="storage = 'uint8' needs a Box of floats with finite"):
        make_observation_store("uint8", ObservationLayout(free), 10)


def test_a_buffer_of_other_leaves_is_refused() -> None:
    state = fill(DICT).get_state()
    other = gym.spaces.Dict({**DICT.spaces, "image": BOX(0, 255, (2, 3, 3), np.uint8)})
    with pytest.raises(ConfigError, match=r"observation_space = .*must agree"):
        make_buffer(3, 0, other, capacity=60).check_state(state)


def test_shorter_rollouts_of_records_are_padded() -> None:
    stream = Stream(1, np.random.default_rng(0))
    parts = [stream.rollout(n) for n in (2, 5)]
    for part in parts:
        part.obs = record(part.obs)
    whole = Rollout.concatenate(parts)
    assert whole.obs.shape == (6, 2) and whole.obs.dtype == LAYOUT.dtype
    np.testing.assert_array_equal(whole.obs[3:, 0], np.repeat(parts[0].obs[-1:, 0], 3))


def algorithm(config: Any) -> Algorithm:
    is_dqn = isinstance(config, DQNConfig)
    exploration = {"type": "ParameterNoise"} if is_dqn else {}  # it looks at replayed features
    return (
        config.environment(RecordEnv, env_config={"discrete": is_dqn})
        .env_runners(num_envs_per_env_runner=2, rollout_fragment_length=4)
        .exploration(exploration_config=exploration)
        .training(
            model={"fcnet_hiddens": [16]},
            train_batch_size_per_learner=8,
            training_intensity=4,
            num_steps_sampled_before_learning_starts=40,
            store_buffer_in_checkpoints=True,
            replay_buffer_config={"capacity": 200, "storage": "compressed"},
        )
        .reporting(min_sample_timesteps_per_iteration=60)
        .debugging(seed=3)
        .build()
    )


@pytest.mark.parametrize("config", [DQNConfig, SACConfig])
def test_an_algorithm_resumes_with_a_buffer_of_records(tmp_path: Path, config: Any) -> None:
    """To the bit; images stay bytes on their way to the networks."""
    original, resumed = algorithm(config()), algorithm(config())
    first = original.train()
    original.save(tmp_path)
    resumed.restore(tmp_path)
    results = [algo.train() for algo in (original, resumed)]
    one, other = (
        {k: v for k, v in result.items() if k.startswith(("learner/", "replay/", "episode"))}
        for result in results
    )
    assert one == other and "replay/num_steps" in one
    assert results[0]["num_updates_lifetime"] > first["num_updates_lifetime"] > 0
    policy, replay = original.get_policy(), original.experience["default_policy"]
    drawn = replay.sample(4, gamma=0.9)
    features = tree_of(original.prepare(policy, drawn), "features")
    assert isinstance(features, dict) and features["image"].dtype == torch.uint8
