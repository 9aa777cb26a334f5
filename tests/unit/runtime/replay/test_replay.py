"""Replay: what is drawn, against a slow obvious buffer and an environment that encodes its rows."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import EncodingVectorEnv
from replay_cases import SPACE, SlowBuffer, Stream, check_windows, fill, make_buffer
from runners import runner_of
from tiers import covering

from trainables import PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.runtime.sampling.env_runner import EnvRunner

GAMMA = 0.9


def make_runner(env: EncodingVectorEnv, **settings: Any) -> EnvRunner:
    return runner_of(env, PPOConfig.from_dict({"env": "unused", **settings}))


# ---------------------------------------------------------------------- transitions and windows


@pytest.mark.parametrize("lengths", [(2, 3, 5), (4, 4, 4), (1, 1, 7), (1, 1, 1)])
def test_transitions_of_an_env_runner(lengths: tuple[int, ...]) -> None:
    """Several fragments of one runner, round the ring and more."""
    runner = make_runner(EncodingVectorEnv(3, lengths))
    buffer = make_buffer(3, capacity=3 * 30)
    seen = 0
    for num_steps in (7, 1, 12, 9, 1, 1, 14):
        rollout = runner.sample(num_steps)[0]["default_policy"]
        buffer.add(rollout)
        seen += rollout.num_env_steps
        assert buffer.num_added == seen
        batch = buffer.sample(1000, gamma=GAMMA)
        obs, successor = batch["obs"].numpy(), batch["next_obs"].numpy()
        assert (obs[:, 3] == 0).all()  # no row starts from a final observation
        assert (successor[:, :2] == obs[:, :2]).all()  # the same slot and episode
        assert (successor[:, 2] == obs[:, 2] + 1).all()
        assert (batch["rewards"].numpy() == successor[:, 2]).all()
        terminated = (successor[:, 3] == 1) & (obs[:, 0] % 2 == 0)  # odd slots truncate
        np.testing.assert_allclose(batch["discounts"], np.where(terminated, 0, GAMMA))
        assert (batch["ids"] % 3 == batch["obs"][:, 0]).all()
    assert 0 < len(buffer) == buffer.num_steps < seen


@pytest.mark.parametrize(("n_step", "num_slots"), covering([1, 3, 7, 2], [8, 1], strength=1))
def test_windows_equal_the_slow_reference(num_slots: int, n_step: int) -> None:
    """Episodes of length 1, both ends, seams, padding, and the write pointer anywhere."""
    for seed in range(10):
        for num_positions in (5, 9, 40):
            check_windows(*fill(seed, num_slots, num_positions), n_step=n_step)


def test_windows_without_seams_or_padding() -> None:
    for case in ({"seams": False}, {"padding": False}, {"num_rollouts": 1}):
        for seed in range(5):
            check_windows(*fill(seed, 3, 25, **case), n_step=3)


def test_an_episode_ends_a_window_whatever_row_comes_next() -> None:
    """Also where the row after an end were one to train on."""
    stream, slow = Stream(3, np.random.default_rng(0)), SlowBuffer(25, 3)
    buffer = make_buffer(3, capacity=75)
    for length in (9, 1, 1, 7):
        rollout = stream.rollout(length)
        rollout.valid = np.ones_like(rollout.valid)
        buffer.add(rollout)
        slow.add(rollout)
        check_windows(buffer, slow, n_step=4)


def test_every_position_of_the_write_pointer_and_rollouts_as_long_as_the_ring() -> None:
    """Of one length: the sentinel comes to lie on each row, the last and first, too."""
    check_rollouts(11, 22, [(4, [])] * 30)
    # One row is left over.
    check_rollouts(5, 11, [(4, []), (4, []), (4, [1]), (3, []), (4, [0, 1])])


def check_rollouts(
    num_positions: int, capacity: int, rollouts: list[tuple[int, list[int]]]
) -> None:
    """Add rollouts of a length and with seams, and compare all windows after each."""
    stream, slow = Stream(2, np.random.default_rng(0)), SlowBuffer(num_positions, 2)
    buffer = make_buffer(2, capacity=capacity)
    for length, seam in rollouts:
        rollout = stream.rollout(length, seam)
        buffer.add(rollout)
        slow.add(rollout)
        check_windows(buffer, slow, n_step=3)


def test_a_range_draws_every_horizon_evenly() -> None:
    from scipy.stats import chisquare

    stream = Stream(1, np.random.default_rng(0), max_length=100_000)
    stream.length[:] = 100_000
    buffer = make_buffer(capacity=20_000)
    buffer.add(stream.rollout(10_000))
    batch = buffer.sample(20_000, gamma=GAMMA, n_step=(2, 5))
    inner = batch["obs"][:, 2] < 9_990
    counts = np.bincount(batch["n_steps"][inner].numpy(), minlength=6)
    assert counts[:2].sum() == 0 and len(counts) == 6
    assert chisquare(counts[2:]).pvalue > 1e-3
    assert (batch["next_obs"][:, 2] - batch["obs"][:, 2] == batch["n_steps"]).all()


def test_range_windows_equal_the_slow_reference() -> None:
    for seed in range(3):
        check_windows(*fill(seed, 3, 30), n_step=(2, 5))


def test_one_step_is_a_window_of_one() -> None:
    buffers = [fill(3, 4, 40)[0] for _ in range(2)]
    plain = buffers[0].sample(500, gamma=GAMMA, n_step=1)
    ring = buffers[1]._rows
    window = ring.windows(plain["ids"].numpy(), 1, np.ones(1, np.float32))
    assert (window[0] == plain["ids"].numpy()).all() and (window[1] == 1).all()
    assert (window[2] == plain["rewards"].numpy()).all()
    ranged = buffers[1].sample(500, gamma=GAMMA, n_step=[1, 1])
    assert all((plain[name] == ranged[name]).all() for name in plain)


def test_a_rollout_cut_in_parts_gives_the_same_rows_as_the_whole() -> None:
    parts, whole = make_buffer(2, capacity=200), make_buffer(2, capacity=200)
    rollout = Stream(2, np.random.default_rng(5)).rollout(20)
    whole.add(rollout)
    for start, end in ((0, 6), (6, 7), (7, 12), (12, 20)):
        columns = {
            name: column[start:end]
            for name, column in vars(rollout).items()
            if isinstance(column, np.ndarray)
        }
        columns |= {"obs": rollout.obs[start : end + 1], "follows": np.full(2, start > 0)}
        parts.add(Rollout(**columns))
    for n_step in (1, 4):
        a, b = (buffer.sample(300, gamma=GAMMA, n_step=n_step) for buffer in (parts, whole))
        assert all((a[name] == b[name]).all() for name in a)
    a, b = (buffer.sample_sequences(10, 19) for buffer in (parts, whole))
    assert all((a[name] == b[name]).all() for name in a)


@pytest.mark.parametrize("num_positions", [3, 8, 20, 21, 60])
def test_episodes_longer_than_the_buffer_leave_their_newest_rows(num_positions: int) -> None:
    runner = make_runner(EncodingVectorEnv(3, (1, 9, 44)), batch_mode="complete_episodes")
    buffer = make_buffer(3, capacity=3 * num_positions)
    seen = 0
    for _ in range(4):
        rollout = runner.sample(5)[0]["default_policy"]
        buffer.add_episodes(rollout)
        seen += rollout.num_env_steps
        assert buffer.num_added == seen
        batch = buffer.sample(2500, gamma=GAMMA, n_step=3)
        obs, successor, steps = (batch[n].numpy() for n in ("obs", "next_obs", "n_steps"))
        assert (obs[:, 3] == 0).all()
        assert (successor[:, :2] == obs[:, :2]).all()
        assert (successor[:, 2] == obs[:, 2] + steps).all()
        newest = rollout.obs[:-1][-(num_positions - 1) :][rollout.valid[-(num_positions - 1) :]]
        kept = {tuple(row) for row in obs.tolist()}
        assert {tuple(row) for row in newest.tolist()} <= kept


# ---------------------------------------------------------------------- drawing


# Dense; few rows are valid.
@pytest.mark.parametrize("lengths", [12, [12, 1, 1, 1, 1, 1, 1, 1]])
@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer"])
def test_every_valid_row_is_drawn_equally_often(kind: str, lengths: int | list[int]) -> None:
    from scipy.stats import chisquare

    stream, slow = Stream(8, np.random.default_rng(1), max_length=2), SlowBuffer(30, 8)
    buffer = make_buffer(8, capacity=240, type=kind)
    for _ in range(5):
        rollout = stream.rollout(lengths)
        buffer.add(rollout)
        slow.add(rollout)
    ids = buffer.sample(200, 400, gamma=GAMMA)["ids"].numpy()
    counts = np.unique(ids, return_counts=True)[1]
    assert len(counts) == len(slow.valid_rows()) == buffer.num_steps
    assert chisquare(counts).pvalue > 1e-3


def test_several_batches_are_independent_draws_of_one_call() -> None:
    from scipy.stats import chi2_contingency

    buffer, _ = fill(0, 4, 60)
    once = buffer.sample(32, 2000, gamma=GAMMA)["ids"].numpy()
    apart = np.concatenate([buffer.sample(32, gamma=GAMMA)["ids"].numpy() for _ in range(2000)])
    counts = [np.bincount(ids, minlength=240) for ids in (once, apart)]
    table = np.stack(counts)[:, counts[0] + counts[1] > 0]
    assert chi2_contingency(table).pvalue > 1e-3
    # Pairs inside a batch, and of neighbouring batches, are not related.
    grid = once.reshape(2000, 32).astype(float)
    assert abs(np.corrcoef(grid[:, 0], grid[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(grid[:-1, 0], grid[1:, 0])[0, 1]) < 0.08


def test_shapes_dtypes_and_fresh_memory() -> None:
    for space in (SPACE, gym.spaces.Discrete(7)):
        buffer = make_buffer(2, capacity=40, space=space)
        rollout = Stream(2, np.random.default_rng(0)).rollout(10)
        if space is not SPACE:
            rollout.obs = rollout.obs[..., 2].astype(np.int64)
        buffer.add(rollout)
        batch = buffer.sample(5, 3, gamma=GAMMA)
        assert {len(column) for column in batch.values()} == {15}
        assert batch["obs"].shape == batch["next_obs"].shape == (15, *(space.shape or ()))
        assert batch["obs"].numpy().dtype == space.dtype
        float32 = {batch[name].dtype for name in ("rewards", "discounts", "weights")}
        assert float32 == {torch.float32}
        assert {batch[name].dtype for name in ("ids", "actions", "n_steps")} == {torch.int64}
        assert (batch["weights"] == 1).all()
        before = buffer.sample_sequences(1, 9)["obs"].clone()
        for column in batch.values():
            column.zero_()  # not the buffer's own memory
        after = buffer.sample_sequences(64, 9)["obs"]
        assert any((after[:, i : i + 1] == before).all() for i in range(64))


def test_windows_ignore_what_lies_behind_them() -> None:
    """A reward that is not finite stays in its own episode."""
    stream = Stream(1, np.random.default_rng(0), max_length=3)
    rollout = stream.rollout(30)
    rollout.rewards.flags.writeable = True
    rollout.rewards[rollout.obs[:-1, :, 1] == 2] = np.inf
    buffer = make_buffer(capacity=40)
    buffer.add(rollout)
    batch = buffer.sample(500, gamma=GAMMA, n_step=5)
    assert (batch["rewards"].isinf() == (batch["obs"][:, 1] == 2)).all()


# ---------------------------------------------------------------------- sequences


@pytest.mark.parametrize("num_slots", [1, 8])
def test_sequences_are_contiguous_rows_of_one_slot(num_slots: int) -> None:
    length, refused = 6, 0
    for seed in range(20):
        buffer, slow = fill(seed, num_slots, 23, num_rollouts=1 + seed // 2)
        num_starts = len(slow.positions) - length
        if num_starts <= 0:
            refused += 1
            with pytest.raises(ConfigError, match="num_steps_sampled_before_learning_starts"):
                buffer.sample_sequences(2, length)
            continue
        batch = {k: v.numpy() for k, v in buffer.sample_sequences(3000, length).items()}
        assert batch["obs"].shape == (length + 1, 3000, 4)
        columns = {
            name: np.stack([row[name] for row in slow.positions]) for name in slow.positions[0]
        }
        position = np.full(23 * num_slots, -1)
        position[columns["ids"].ravel()] = np.arange(columns["ids"].size) // num_slots
        first, slot = position[batch["ids"][0]], batch["ids"][0] % num_slots
        times = first + np.arange(length + 1)[:, None]
        assert first.max() + length < len(slow.positions)  # not over the write pointer
        np.testing.assert_array_equal(batch["obs"], columns["obs"][times, slot])
        for name in ("ids", "rewards", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(batch[name], columns[name][times[:-1], slot])
        # Of the oldest row nobody knows any more what was before it.
        before = columns["valid"][times[:-1] - 1, slot]
        known = times[:-1] > 0
        np.testing.assert_array_equal(batch["is_first"][known], ~before[known])
        assert len(set(zip(first, slot, strict=True))) == num_starts * num_slots
    assert refused


def test_sequence_starts_are_equally_likely() -> None:
    from scipy.stats import chisquare

    buffer, _ = fill(2, 2, 23)
    first = buffer.sample_sequences(40_000, 6)["ids"][0].numpy()
    counts = np.unique(first, return_counts=True)[1]
    assert len(counts) == 2 * (23 - 6)
    assert chisquare(counts).pvalue > 1e-3


def test_is_first_marks_episodes_and_seams() -> None:
    stream = Stream(1, np.random.default_rng(0), max_length=5)
    buffer = make_buffer(capacity=60)
    for length in (9, 1, 8):
        buffer.add(stream.rollout(length))
    assert stream.t[0] > 0 and not stream.done[0]
    cut = stream.rollout(12)
    cut.follows = np.zeros(1, bool)  # the same episode goes on, but nobody knows
    buffer.add(cut)
    batch = buffer.sample_sequences(1, 31)  # all there is
    valid, step = batch["valid"][:, 0], batch["obs"][:-1, 0, 2]
    seam = 19  # after 18 rows and their sentinel
    assert step[seam] == step[seam - 1] > 0 and not valid[seam - 1]
    expected = (step == 0) | (torch.arange(31) == seam)
    assert (batch["is_first"][:, 0] == expected)[valid].all()


# ---------------------------------------------------------------------- updates and limits


def test_extra_columns_are_written_back_and_new_rows_start_at_zero() -> None:
    stream = Stream(2, np.random.default_rng(0), max_length=3)
    buffer = make_buffer(2, capacity=40)
    buffer.add_column("latent", (3,), torch.float32)
    buffer.add(stream.rollout(10))
    batch = buffer.sample_sequences(8, 6)
    assert batch["latent"].shape == (6, 8, 3) and not batch["latent"].any()
    values = torch.stack([batch["ids"]] * 3, -1).float() + 1
    buffer.update(batch["ids"], {"latent": values})
    sample = buffer.sample(300, gamma=GAMMA)
    written = torch.isin(sample["ids"], batch["ids"])
    assert written.any() and not written.all()
    assert (sample["latent"][written] == sample["ids"][written, None] + 1).all()
    assert not sample["latent"][~written].any()
    # Rows that are not valid keep nothing.
    again = buffer.sample_sequences(50, 6)
    assert (~again["valid"]).any() and not again["latent"][~again["valid"]].any()
    for _ in range(3):
        buffer.add(stream.rollout(9))
    assert not buffer.sample(300, gamma=GAMMA)["latent"].any()  # all were overwritten
    with pytest.raises(ValueError, match="latent"):
        buffer.add_column("latent", (), torch.float32)
    with pytest.raises(ValueError, match="priorities"):
        buffer.update(sample["ids"], {"priorities": torch.ones(300)})


def test_clear_forgets_everything() -> None:
    buffer, _ = fill(0, 2, 20)
    buffer.clear()
    assert (buffer.num_steps, buffer.num_added, len(buffer)) == (0, 0, 0)
    with pytest.raises(ConfigError, match="num_steps_sampled_before_learning_starts"):
        buffer.sample(4, gamma=GAMMA)
    # A rollout that followed the one that is gone opens the buffer, and is a first one.
    stream, slow = Stream(2, np.random.default_rng(0)), SlowBuffer(20, 2)
    stream.rollout(5)
    rollout = stream.rollout(8)
    assert rollout.follows.all()
    buffer.add(rollout)
    slow.add(rollout)
    check_windows(buffer, slow, n_step=3)
    assert buffer.sample_sequences(1, 8)["is_first"][0, 0]


def test_a_capacity_that_is_too_small_is_refused() -> None:
    message = r"capacity = 15 is 1 rows .* 8 slots.*at least 16"
    with pytest.raises(ConfigError, match=message):
        make_buffer(8, capacity=15)
    buffer = make_buffer(8, capacity=16 * 8)
    stream = Stream(8, np.random.default_rng(0))
    with pytest.raises(ConfigError, match=r"capacity = 128.*16 steps.*at least 136"):
        buffer.add(stream.rollout(16))
    buffer.add(stream.rollout(15))
