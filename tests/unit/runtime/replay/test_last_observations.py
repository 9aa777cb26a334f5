"""Last observations of episodes are told apart from steps, wherever the ring has been cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fakes import CrashingEnv
from replay_cases import Stream, make_buffer

from trainables import DQN
from trainables.runtime.replay.buffer import ReplayBuffer


def sequences(buffer: ReplayBuffer, length: int = 2) -> dict[str, Any]:
    """Every sequence there is, several times."""
    count = buffer.num_sequences(length)
    batch = buffer.sample_sequences(30 * count, length)
    assert len(np.unique(batch["ids"][0])) == count
    return {name: column.numpy() for name, column in batch.items()}


@pytest.mark.parametrize("length", [1, 2, 4])
def test_each_is_told_once_also_in_the_first_row_of_a_sequence(length: int) -> None:
    """The row before the oldest one is gone; whether an episode ended in it is known."""
    seen_first = 0
    for seed in range(3):
        stream = Stream(3, np.random.default_rng(seed), max_length=3)
        buffer = make_buffer(3, seed, capacity=3 * 11)
        for _ in range(20):
            buffer.add(stream.rollout(length))
            if not buffer.num_sequences(2):
                continue
            batch = sequences(buffer)
            is_final = batch["obs"][:-1, :, 3] == 1
            np.testing.assert_array_equal(batch["is_last"], is_final)
            assert not (batch["is_last"] & batch["valid"]).any()
            seen_first += batch["is_last"][0].sum()
        restored = make_buffer(3, seed, capacity=3 * 11)
        restored.set_state(buffer.get_state())
        np.testing.assert_array_equal(
            restored.sample_sequences(99, 2)["is_last"], buffer.sample_sequences(99, 2)["is_last"]
        )
    assert seen_first > 0


def test_padding_and_seams_are_none() -> None:
    """Of an observation that is written twice the first counts."""
    rng = np.random.default_rng(1)
    stream = Stream(2, rng, max_length=3)
    buffer = make_buffer(2, capacity=2 * 400)
    for _ in range(40):
        buffer.add(stream.rollout(rng.integers(1, 6, 2).tolist(), [int(rng.integers(2))]))
    batch = sequences(buffer, 1)
    _, firsts = np.unique(batch["ids"], return_index=True)
    obs, is_last = batch["obs"][0, firsts], batch["is_last"][0, firsts]
    assert (obs[is_last][:, 3] == 1).all()
    told = [tuple(row) for row in obs[is_last][:, :2]]
    ended = {tuple(row) for row in obs[obs[:, 3] == 1][:, :2]}
    assert len(told) == len(set(told)) > 5 and set(told) <= ended
    assert len(ended - set(told)) <= 2  # those whose rows the newest sentinel is


def test_what_a_replaced_environment_showed_last_is_none() -> None:
    """Its action is lost, too; of this one episode 1 breaks off after two steps."""
    settings: dict[str, Any] = {
        "env": CrashingEnv,
        "env_config": {"crashes": True},
        "restart_failed_sub_environments": True,
        "num_envs_per_env_runner": 2,
        "num_steps_sampled_before_learning_starts": 100,
        "replay_buffer_config": {"capacity": 200},
    }
    with DQN(settings) as algo:
        for _ in range(30):
            algo.experience.add(algo.sample())
        batch = sequences(algo.experience["default_policy"], 1)  # type: ignore[arg-type]
    obs, is_last, valid = (batch[name][0] for name in ("obs", "is_last", "valid"))
    assert (obs[is_last] == 4).all() and is_last.any()
    lost = ~valid & ~is_last
    assert set(obs[lost].flatten()) == {2.0}


def test_a_column_says_whether_they_have_values() -> None:
    stream = Stream(2, np.random.default_rng(2), max_length=3)
    buffer = make_buffer(2, capacity=2 * 50)
    buffer.add_column("steps", (), torch.float32)
    buffer.add_column("rows", (2,), torch.float32, of_last=True)
    with pytest.raises(ValueError, match="has a column 'is_last' already"):
        buffer.add_column("is_last", (), torch.float32)
    buffer.add(stream.rollout([40, 30]))
    everything = buffer.sample_sequences(2000, 1)
    ids = everything["ids"]
    ones = {"steps": torch.ones(ids.shape), "rows": torch.ones((*ids.shape, 2))}
    buffer.update(ids, ones)
    batch = buffer.sample_sequences(2000, 1)
    valid, is_last = batch["valid"], batch["is_last"]
    assert torch.equal(batch["steps"] == 1, valid)
    assert torch.equal(batch["rows"] == 1, (valid | is_last)[..., None].expand(1, 2000, 2))
    assert not (valid | is_last).all() and is_last.any()
