"""A saved replay buffer: everything to the bit, or one clear error."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from replay_cases import SPACE, Stream, fill, make_buffer
from tiers import covering

from trainables.core.checkpoint import load_state, save_state
from trainables.core.errors import ConfigError
from trainables.runtime.replay.buffer import ReplayBuffer

PRIORITIZED = {"type": "PrioritizedReplayBuffer"}
CASES = [
    {},
    {**PRIORITIZED, "alpha": 0.7},
    {"storage": "uint8"},
    {"storage": "compressed"},
    {**PRIORITIZED, "storage": "compressed"},
]
BOUNDED = gym.spaces.Box(0, 300, (4,), np.float32)


def draws(buffer: ReplayBuffer) -> list[torch.Tensor]:
    """What comes next: samples of all kinds, between them updates and new rows."""
    stream = Stream(2, np.random.default_rng(9))
    stream.rollout(1)
    found: list[torch.Tensor] = []
    for length in (3, 7):
        batch = buffer.sample(16, 3, gamma=0.9, n_step=(1, 4))
        found += [*batch.values(), *buffer.sample_sequences(5, 3).values()]
        if buffer.config.prioritized:
            buffer.update(batch["ids"], {"priorities": batch["rewards"].abs()})
        buffer.update(batch["ids"], {"latent": batch["rewards"]})
        buffer.add(stream.rollout(length))  # follows what is saved
        found.append(torch.tensor([buffer.num_steps, buffer.num_added]))
    return found


# Nothing, a part, round the ring.
@pytest.mark.parametrize(("num_rollouts", "case"), covering([12, 1, 0], CASES, strength=1))
def test_a_restored_buffer_goes_on_to_the_bit(
    tmp_path: Path, case: dict[str, Any], num_rollouts: int
) -> None:
    def make(seed: int) -> ReplayBuffer:
        buffer, _ = fill(seed, 2, 20, num_rollouts=num_rollouts, space=BOUNDED, **case)
        buffer.add_column("latent", (), torch.float32)
        if buffer.num_steps:
            batch = buffer.sample(7, gamma=0.9)  # the random stream is not at its start
            buffer.update(batch["ids"], {"latent": batch["rewards"] + 1})
            if buffer.config.prioritized:
                buffer.update(batch["ids"], {"priorities": 10 * batch["rewards"].abs()})
        return buffer

    buffer = make(0)
    save_state(tmp_path, "replay", buffer.get_state())
    restored = make(1)
    restored.set_state(load_state(tmp_path, "replay"))
    assert restored.nbytes == buffer.nbytes
    assert (restored.num_steps, restored.num_added) == (buffer.num_steps, buffer.num_added)
    if not buffer.num_steps:
        return
    for mine, its in zip(draws(buffer), draws(restored), strict=True):
        assert mine.dtype == its.dtype
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("storage", ["native", "uint8", "compressed"])
def test_a_state_is_a_copy(tmp_path: Path, storage: str) -> None:
    buffer, _ = fill(0, 2, 20, space=BOUNDED, storage=storage, **PRIORITIZED)
    state = buffer.get_state()
    save_state(tmp_path, "before", state)
    stream = Stream(2, np.random.default_rng(1))
    for _ in range(3):
        buffer.add(stream.rollout(9))  # round the ring
        batch = buffer.sample(8, gamma=0.9)
        buffer.update(batch["ids"], {"priorities": batch["rewards"].abs()})
    save_state(tmp_path, "after", state)
    before, after = ((tmp_path / f"{n}.safetensors").read_bytes() for n in ("before", "after"))
    assert before == after


def test_a_state_holds_the_filled_part_only(tmp_path: Path) -> None:
    buffer = make_buffer(2, capacity=200_000, **PRIORITIZED)
    buffer.add(Stream(2, np.random.default_rng(0)).rollout(20))
    save_state(tmp_path, "replay", buffer.get_state())
    assert (tmp_path / "replay.safetensors").stat().st_size < 10_000


def test_what_was_in_the_buffer_is_gone() -> None:
    small, _ = fill(0, 2, 20, num_rollouts=1, **PRIORITIZED)
    full, _ = fill(1, 2, 20, **PRIORITIZED)
    full.set_state(small.get_state())
    assert full.num_steps == small.num_steps
    a, b = (buffer.sample(500, gamma=0.9)["obs"] for buffer in (full, small))
    assert torch.equal(a, b)


def test_the_state_of_another_buffer_is_refused() -> None:
    buffer, _ = fill(0, 2, 20, **PRIORITIZED)
    settings: dict[str, Any] = {"num_slots": 2, "capacity": 40, "space": SPACE} | PRIORITIZED
    others: list[tuple[dict[str, Any], str]] = [
        ({"capacity": 60}, "replay_buffer_config: capacity = 60, but .* 40"),
        ({"num_slots": 4}, "num_envs_per_env_runner.* = 4, but .* 2"),
        ({"type": "ReplayBuffer"}, "replay_buffer_config: type = 'uniform', but"),
        ({"alpha": 0.5}, "replay_buffer_config: alpha = 0.5, but .* 0.6"),
        ({"eps": 0.5}, "replay_buffer_config: eps = 0.5"),
        ({"storage": "compressed"}, "replay_buffer_config: storage = 'compressed'"),
        ({"space": gym.spaces.Box(-1, 1, (3,), np.float32)}, "observation_space"),
        ({"space": gym.spaces.Box(-1, 1, (4,), np.float64)}, "observation_space"),
    ]
    for other, message in others:
        refusing = make_buffer(**{**settings, **other})
        with pytest.raises(ConfigError, match=message):
            refusing.set_state(buffer.get_state())


def test_a_refused_state_changes_nothing() -> None:
    buffer, other = (fill(0, 2, 20, alpha=alpha, **PRIORITIZED) for alpha in (0.6, 0.5))
    before = other[0].get_state()
    with pytest.raises(ConfigError, match="alpha"):
        other[0].set_state(buffer[0].get_state())
    np.testing.assert_equal(other[0].get_state(), before)


def test_columns_must_agree() -> None:
    buffer, _ = fill(0, 2, 20)
    other = make_buffer(2, capacity=40)
    other.add_column("latent", (3,), torch.float32)
    with pytest.raises(ConfigError, match=r"columns.*latent"):
        other.set_state(buffer.get_state())
