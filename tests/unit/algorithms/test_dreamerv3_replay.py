"""Sequences of the replay buffer: what led to a row, new ones first, latents that are kept anew."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from replay_cases import SPACE, Stream

from trainables import DreamerV3Config
from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.dreamerv3.replay import SequenceReplay
from trainables.runtime.replay.stores import StateLayout

LENGTH = 4


def make_buffer(
    num_slots: int = 2, num_positions: int = 40, space: gym.Space = SPACE
) -> SequenceReplay:
    return SequenceReplay(
        ReplayBufferConfig.of({"capacity": num_slots * num_positions}),
        ObservationLayout(space),
        (),
        torch.int64,
        num_slots,
        np.random.SeedSequence(0),
        1,
        StateLayout(1, {"h": ((1,), np.dtype(np.float32))}),
        length=LENGTH,
    )


def with_states(rollout: Rollout) -> Rollout:
    """The state before each row says of which it is: 100 x episode + step."""
    rollout.states = {"h": (100 * rollout.obs[:-1, :, 1] + rollout.obs[:-1, :, 2])[..., None]}
    rollout.state_stride = 1
    return rollout


def filled(
    num_rollouts: int, length: int = 3, seed: int = 0, **sizes: Any
) -> tuple[Any, list[Any]]:
    """A buffer and the rollouts that were added."""
    buffer = make_buffer(**sizes)
    stream, added = Stream(buffer.num_slots, np.random.default_rng(seed)), []
    for _ in range(num_rollouts):
        added.append(with_states(stream.rollout(length)))
        buffer.add(added[-1])
    return buffer, added


@pytest.mark.parametrize(
    ("given", "rows"),
    [({}, 1_000_000), ({"storage": "uint8"}, 1_000_000), ({"capacity": 9000}, 9000)],
)
def test_what_is_not_said_of_the_buffer_is_the_algorithms_own(
    given: dict[str, Any], rows: int
) -> None:
    config = DreamerV3Config(replay_buffer_config=given).environment("CartPole-v1")
    assert config.resolve().replay.capacity == rows


def test_rewards_and_ends_lie_in_the_rows_that_they_led_to() -> None:
    buffer, added = filled(9)
    reward_of, terminal = {}, set()
    for rollout in added:
        for t, n in zip(*np.nonzero(rollout.valid), strict=True):
            row = tuple(rollout.obs[t + 1, n, :3])
            reward_of[row] = rollout.rewards[t, n]
            if rollout.terminated[t, n]:
                terminal.add(row)
    batch = {k: v.numpy() for k, v in buffer.sample_sequences(300, LENGTH).items()}
    assert batch["obs"].shape == (LENGTH, 300, 4)
    for t in range(LENGTH):
        for b in range(300):
            row = tuple(batch["obs"][t, b, :3])
            is_first = row[2] == 0
            assert batch["is_first"][t, b] == is_first
            assert batch["rewards"][t, b] == pytest.approx(0 if is_first else reward_of[row])
            assert batch["continues"][t, b] == (row not in terminal)
            assert batch["is_last"][t, b] == batch["obs"][t, b, 3] == (not batch["valid"][t, b])
    expected = 100 * batch["obs"][0, :, 1] + batch["obs"][0, :, 2]
    np.testing.assert_array_equal(batch["state/h"][:, 0], expected)


def test_what_is_new_is_drawn_once_and_in_order() -> None:
    buffer, _ = filled(9)  # 27 rows of each slot, the sentinel apart
    drawn = [buffer.sample_sequences(4, LENGTH)["ids"] for _ in range(4)]
    ids = torch.cat([part.T for part in drawn]) // 2
    slots = torch.cat([part.T for part in drawn]) % 2
    new = [list(range(i * LENGTH, (i + 1) * LENGTH)) for i in range(6) for _ in range(2)]
    assert ids[:12].tolist() == new
    assert slots[:12, 0].tolist() == [0, 1] * 6
    # Those after them are drawn at random, and the next new ones come when there are enough rows.
    assert ids[12:].tolist() != new[:4]


def test_rows_that_came_since_are_next_in_line() -> None:
    buffer, _ = filled(9)
    buffer.sample_sequences(12, LENGTH)
    stream = Stream(2, np.random.default_rng(5))
    rollout = with_states(stream.rollout(2))
    rollout.follows = np.array([True, True])
    buffer.add(rollout)  # 29 rows: 24 are behind us
    ids = buffer.sample_sequences(3, LENGTH)["ids"] // 2
    assert ids[:, :2].T.tolist() == [[24, 25, 26, 27]] * 2


@pytest.mark.parametrize("num_rollouts", [13, 14, 20, 41])
def test_after_the_ring_has_come_round_sequences_are_still_whole(num_rollouts: int) -> None:
    """Episodes and steps go on row by row; what waited too long is left out."""
    buffer, _ = filled(num_rollouts)
    for _ in range(3):
        batch = {k: v.numpy() for k, v in buffer.sample_sequences(60, LENGTH).items()}
        obs = batch["obs"]
        for t in range(1, LENGTH):
            same = ~batch["is_first"][t]
            np.testing.assert_array_equal(obs[t, same, 1], obs[t - 1, same, 1])
            np.testing.assert_array_equal(obs[t, same, 2], obs[t - 1, same, 2] + 1)
        np.testing.assert_array_equal(batch["state/h"][:, 0], 100 * obs[0, :, 1] + obs[0, :, 2])
        led = batch["rewards"][0][batch["is_first"][0]]
        assert not led.any()


def test_latents_are_kept_before_the_rows_that_follow() -> None:
    buffer, _ = filled(9)
    ids = buffer.sample_sequences(5, LENGTH)["ids"]
    after = {"h": torch.full((LENGTH, 5, 1), -1.0)}
    buffer.write_latents(ids, after)
    written = {(i + 2) % 80 for i in ids.flatten().tolist()}
    for _ in range(30):
        batch = buffer.sample_sequences(20, LENGTH)
        for first, state in zip(
            batch["ids"][0].tolist(), batch["state/h"][:, 0].tolist(), strict=True
        ):
            assert (state == -1) == (first in written)


def test_a_stored_buffer_draws_as_it_would_have() -> None:
    buffer, _ = filled(20)
    buffer.sample_sequences(3, LENGTH)
    again = make_buffer()
    again.set_state(buffer.get_state())
    for _ in range(4):
        one, other = (b.sample_sequences(5, LENGTH) for b in (buffer, again))
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_too_few_rows_are_refused() -> None:
    buffer, _ = filled(1)
    assert buffer.num_sequences(LENGTH) == 0
    with pytest.raises(ConfigError, match="a sequence of 4 rows"):
        buffer.sample_sequences(2, LENGTH)


def test_an_emptied_buffer_has_no_line() -> None:
    buffer, added = filled(9)
    buffer.clear()
    for rollout in added[:3]:
        buffer.add(rollout)
    assert buffer.sample_sequences(2, LENGTH)["ids"][0].tolist() == [0, 1]
