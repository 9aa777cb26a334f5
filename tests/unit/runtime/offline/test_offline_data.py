"""Draws of a data set: those of a replay buffer that its episodes were added to, to the bit."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_cases import as_buffer, make_policy_of
from offline_fakes import CARTPOLE, FakeSource, random_episodes

from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.offline_data import OfflineData

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete
NESTED = gym.spaces.Dict(
    {"camera": Box(0, 255, (4, 4, 1), np.uint8), "speed": Box(-9, 9, (2,), np.float32)}
)
JOINT = gym.spaces.Tuple([Discrete(3, start=2), Box(-2, 2, (2,), np.float32)])
IMAGE = DataSpaces(Box(0, 255, (10, 10), np.uint8), Discrete(3))
KINDS: dict[str, tuple[DataSpaces, dict[str, Any]]] = {
    "discrete": (CARTPOLE, {}),
    "box": (DataSpaces(CARTPOLE.observation, Box(-3, 1, (2,), np.float32)), {}),
    "choices from 5": (DataSpaces(CARTPOLE.observation, Discrete(3, start=5)), {}),
    "nested": (DataSpaces(NESTED, JOINT), {}),
    "frames": (CARTPOLE, {"frame_stack": 3}),
    "memory": (CARTPOLE, {"model": {"use_lstm": True, "lstm_cell_size": 4}}),
    "what led there": (
        DataSpaces(CARTPOLE.observation, Box(-3, 1, (2,), np.float32)),
        {
            "model": {
                "use_lstm": True,
                "lstm_cell_size": 4,
                "lstm_use_prev_action": True,
                "lstm_use_prev_reward": True,
            }
        },
    ),
}
LENGTHS = (5, 1, 3, 1, 1, 8, 2, 4, 9, 1)
GAMMA = 0.9


def data_of(
    episodes: list[Episode], spaces: DataSpaces, policy: Any, cache: Path, **options: Any
) -> OfflineData:
    data = load_data_set(FakeSource(episodes, spaces), spaces, cache)
    return OfflineData(data, policy, np.random.SeedSequence(0), **options)


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, column in one.items():
        assert column.dtype == other[name].dtype, name
        assert torch.equal(column, other[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_a_buffer_with_the_same_episodes(kind: str, tmp_path: Path) -> None:
    spaces, settings = KINDS[kind]
    episodes = random_episodes(spaces, LENGTHS)
    policy = make_policy_of(spaces, **settings)
    data = data_of(episodes, spaces, policy, tmp_path)
    buffer = as_buffer(episodes, policy)
    assert data.num_steps == buffer.num_steps == sum(LENGTHS)
    for n_step in (1, 3, (1, 4)):  # also where most that is drawn at first is not valid
        drawn = [each.sample(100, 3, gamma=GAMMA, n_step=n_step) for each in (data, buffer)]
        assert_same(*drawn)
    assert data.num_sequences(6) == buffer.num_sequences(6) > 0
    sequences = data.sample_sequences(40, 6, n_step=(1, 3))
    if policy.is_recurrent:  # that buffer keeps no states; nobody has recorded any
        states = {name: sequences.pop(name) for name in [*sequences] if name.startswith("state")}
        assert states and all(not state.any() for state in states.values())
        assert {len(state) for state in states.values()} == {40}
    assert_same(sequences, buffer.sample_sequences(40, 6, n_step=(1, 3)))


@pytest.mark.parametrize("bound", [True, 0.5, [-0.1, 0.7]])
def test_rewards_are_bounded_as_a_learner_sees_them(
    bound: bool | float | list[float], tmp_path: Path
) -> None:
    episodes, policy = random_episodes(CARTPOLE, LENGTHS), make_policy_of(CARTPOLE)
    data = data_of(episodes, CARTPOLE, policy, tmp_path, reward_bound=bound)
    raw = data_of(episodes, CARTPOLE, policy, tmp_path)
    given, seen = raw.sample(99, gamma=1.0)["rewards"], data.sample(99, gamma=1.0)["rewards"]
    low, high = bound if isinstance(bound, list) else (-float(bound), float(bound))
    assert torch.equal(seen, given.sign() if bound is True else given.clamp(low, high))
    raw.sample_sequences(9, 4)
    wide, narrow = raw.sample(99, gamma=1.0, n_step="end"), None
    data.sample_sequences(9, 4)
    narrow = data.sample(99, gamma=1.0, n_step="end")
    assert torch.equal(wide["ids"], narrow["ids"])
    assert not torch.equal(wide["rewards"], narrow["rewards"])


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_returns_to_the_end_are_those_of_a_slow_loop(gamma: float, tmp_path: Path) -> None:
    episodes, policy = random_episodes(CARTPOLE, LENGTHS), make_policy_of(CARTPOLE)
    assert {(e.terminated, e.truncated) for e in episodes} == {
        (True, False),
        (False, True),
        (False, False),
    }
    data = data_of(episodes, CARTPOLE, policy, tmp_path)
    drawn = {k: v.numpy() for k, v in data.sample(600, gamma=gamma, n_step="end").items()}
    expected, first = {}, 0
    for episode in episodes:
        length = len(episode)
        for t in range(length):
            total = sum(gamma**k * float(r) for k, r in enumerate(episode.rewards[t:]))
            discount = 0.0 if episode.terminated else gamma ** (length - t)
            expected[first + t] = (total, discount, length - t, episode.obs[-1], episode.obs[t])
        first += length + 1
    assert {*drawn["ids"].tolist()} == expected.keys()
    names = ("rewards", "discounts", "n_steps", "next_obs", "obs")
    for i, row in enumerate(drawn["ids"].tolist()):
        for name, value in zip(names, expected[row], strict=True):
            np.testing.assert_allclose(drawn[name][i], value, rtol=1e-6, atol=1e-6)


def test_returns_are_made_once_and_again_if_damaged(tmp_path: Path) -> None:
    episodes, policy = random_episodes(CARTPOLE, LENGTHS), make_policy_of(CARTPOLE)
    first = data_of(episodes, CARTPOLE, policy, tmp_path)
    expected = first.sample(50, gamma=GAMMA, n_step="end")["rewards"]
    (path,) = first.data.folder.glob("returns-*")
    changed = path.stat().st_mtime_ns
    again = data_of(episodes, CARTPOLE, policy, tmp_path)
    assert torch.equal(again.sample(50, gamma=GAMMA, n_step="end")["rewards"], expected)
    assert path.stat().st_mtime_ns == changed
    path.write_bytes(path.read_bytes()[:100])
    again = data_of(episodes, CARTPOLE, policy, tmp_path)
    assert torch.equal(again.sample(50, gamma=GAMMA, n_step="end")["rewards"], expected)
    again.sample(50, gamma=0.5, n_step="end")
    assert len([*first.data.folder.glob("returns-*")]) == 2


def test_draws_go_on_where_a_state_says_and_of_the_same_data_only(tmp_path: Path) -> None:
    episodes, policy = random_episodes(CARTPOLE, LENGTHS), make_policy_of(CARTPOLE)
    data = data_of(episodes, CARTPOLE, policy, tmp_path)
    data.sample(7, gamma=GAMMA)
    state = data.get_state()
    expected = data.sample(30, gamma=GAMMA, n_step=(1, 3))
    data.clear()
    data.set_state(state)
    assert_same(data.sample(30, gamma=GAMMA, n_step=(1, 3)), expected)
    data.reseed(np.random.SeedSequence(9))
    assert not torch.equal(data.sample(30, gamma=GAMMA)["ids"], expected["ids"])
    other = data_of(episodes[1:], CARTPOLE, policy, tmp_path)
    with pytest.raises(ConfigError, match=r"fake holds other data than the checkpoint"):
        other.check_state(state)
    with pytest.raises(ConfigError, match=r"other data"):
        other.set_state(state)


def test_rows_never_change(tmp_path: Path) -> None:
    episodes, policy = random_episodes(CARTPOLE, LENGTHS), make_policy_of(CARTPOLE)
    data = data_of(episodes, CARTPOLE, policy, tmp_path)
    drawn = data.sample(5, gamma=GAMMA)
    with pytest.raises(ValueError, match="never change"):
        data.update(drawn["ids"], {"priorities": torch.ones(5)})
    drawn["obs"] += 1  # a draw is a copy
    assert (data.num_added, data.nbytes) == (0, 0)


def test_too_few_rows_for_a_sequence_and_another_policy_are_refused(tmp_path: Path) -> None:
    episodes, policy = random_episodes(CARTPOLE, (3,)), make_policy_of(CARTPOLE)
    data = data_of(episodes, CARTPOLE, policy, tmp_path)
    assert data.num_sequences(4) == 0
    with pytest.raises(ConfigError, match=r"a sequence of 4 rows needs 5, and fake has 4"):
        data.sample_sequences(1, 4)
    with pytest.raises(ConfigError, match=r"observations of fake are float32 \(4,\)"):
        data_of(episodes, CARTPOLE, make_policy_of(IMAGE), tmp_path)


LARGE = DataSpaces(Box(-1, 1, (256,), np.float32), Discrete(2))


class Large(FakeSource):
    """80 MB, made as they are read."""

    def digest(self) -> str:
        return "large"

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        for number in range(80):
            obs = np.full((1001, 256), number / 80, np.float32)
            actions, rewards = np.zeros(1000, np.int64), np.ones(1000, np.float32)
            yield Episode(obs, actions, rewards, True, False)


def anonymous_bytes() -> int:
    """Memory of this process that no file has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux says it there")
def test_memory_of_its_own_is_bounded_however_large_the_data_are(tmp_path: Path) -> None:
    policy = make_policy_of(LARGE)
    gc.collect()
    before = anonymous_bytes()
    data = load_data_set(Large([], LARGE), LARGE, tmp_path)
    assert data.nbytes > 80e6
    drawn = OfflineData(data, policy, np.random.SeedSequence(0))
    for step in range(40):  # of two thirds of the pages
        drawn.sample(500, gamma=GAMMA, n_step=(1, 3) if step % 2 else "end")
    gc.collect()
    assert anonymous_bytes() - before < 30e6
