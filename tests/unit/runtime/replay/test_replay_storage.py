"""How observations are stored: native, in 256 levels, compressed."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from replay_cases import Stream, check_windows, fill, make_buffer

from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.runtime.replay.stores import make_observation_store

SPACES = [
    gym.spaces.Box(-5, 5, (3, 4), np.float32),
    gym.spaces.Box(0, 255, (6, 6), np.uint8),
    gym.spaces.Box(-np.inf, np.inf, (), np.float64),
    gym.spaces.Discrete(9),
    gym.spaces.MultiDiscrete([3, 4]),
]


def random_obs(space: gym.Space, *shape: int) -> np.ndarray:
    space.seed(0)
    flat = np.stack([space.sample() for _ in range(int(np.prod(shape)))])
    return flat.reshape(*shape, *(space.shape or ()))


@pytest.mark.parametrize("storage", ["native", "compressed"])
def test_what_is_written_is_read(storage: str) -> None:
    for space in SPACES:
        store = make_observation_store(storage, ObservationLayout(space), 20)
        first, second = random_obs(space, 15), random_obs(space, 8)[::-1]
        store.write(slice(0, 15), first)
        store.write(slice(12, 20), second)  # over the end of the first
        ids = np.array([[0, 11, 12], [19, 3, 0]])
        read = store.read(ids)
        np.testing.assert_array_equal(read, np.concatenate([first[:12], second])[ids])
        assert read.dtype == space.dtype
        assert read.flags.writeable
        read[:] = 0
        np.testing.assert_array_equal(store.read(np.array([0, 12])), [first[0], second[0]])


@pytest.mark.parametrize("num_slots", [1, 8])
def test_compressed_windows_equal_the_slow_reference(num_slots: int) -> None:
    for seed in range(3):
        check_windows(*fill(seed, num_slots, 9, storage="compressed"), n_step=3)


def test_compressed_bytes_are_counted_as_they_come_and_go() -> None:
    space = gym.spaces.Box(0, 255, (84, 84), np.uint8)
    store = make_observation_store("compressed", ObservationLayout(space), 50)
    empty = store.nbytes
    rng = np.random.default_rng(0)
    flat = np.zeros((50, 84, 84), np.uint8)
    flat[:, 0, 0] = np.arange(50)
    noise = rng.integers(0, 256, flat.shape, np.uint8)
    store.write(slice(0, 50), flat)
    small = store.nbytes
    assert empty < small < empty + 50 * 300  # almost nothing is in these frames
    store.write(np.arange(50), noise)
    assert 1.0 < (store.nbytes - empty) / noise.nbytes < 1.02  # noise does not compress
    store.write(slice(0, 50), flat)
    assert store.nbytes == small
    np.testing.assert_array_equal(store.read(np.arange(50)), flat)


@pytest.mark.filterwarnings("error")  # one dimension has no range to divide by
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantized_floats_are_off_by_half_a_level_at_most(dtype: Any) -> None:
    low, high = np.array([-1, 0, 5], dtype), np.array([1, 1000, 5], dtype)
    space = gym.spaces.Box(low, high, dtype=dtype)
    store = make_observation_store("uint8", ObservationLayout(space), 1000)
    obs = random_obs(space, 1000)
    obs[0], obs[1] = low, high
    store.write(np.arange(1000), obs)
    read = store.read(np.arange(1000))
    assert read.dtype == dtype
    assert (np.abs(read - obs) <= (high - low) / 255 * 0.5001 + 1e-6).all()
    assert np.abs(read - obs)[:, :2].mean(0).min() > 0  # it is lossy
    np.testing.assert_allclose(read[:2], obs[:2], rtol=1e-6)  # the bounds are levels
    assert len(np.unique(read[:, 1])) > 240
    store.write(slice(0, 1), np.array([[7, -3, 5]], dtype))  # beyond the bounds: the nearest level
    np.testing.assert_allclose(store.read(np.array([0])), [[1, 0, 5]])
    assert store.nbytes == 3000


def test_uint8_frames_are_native_in_uint8_storage() -> None:
    space = gym.spaces.Box(0, 255, (84, 84), np.uint8)
    store = make_observation_store("uint8", ObservationLayout(space), 10)
    obs = random_obs(space, 10)
    store.write(slice(0, 10), obs)
    np.testing.assert_array_equal(store.read(np.arange(10)), obs)


def test_what_has_no_256_levels_is_refused() -> None:
    for space in (
        gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
        gym.spaces.Box(np.array([0, -np.inf], np.float32), np.float32(1), (2,), np.float32),
        gym.spaces.Box(-3e38, 3e38, (3,), np.float32),  # as good as unbounded
        gym.spaces.Box(0, 9, (3,), np.int32),
        gym.spaces.Discrete(4),
    ):
        with pytest.raises(ConfigError, match="storage = 'uint8' needs a Box of"):
            make_buffer(space=space, storage="uint8")


def test_a_quantized_buffer_samples_like_a_native_one() -> None:
    space = gym.spaces.Box(0, 255, (4,), np.float32)  # whole numbers are levels
    a, b = (make_buffer(2, space=space, storage=s, capacity=60) for s in ("native", "uint8"))
    rollout = Stream(2, np.random.default_rng(0)).rollout(20)
    a.add(rollout)
    b.add(rollout)
    native, quantized = (buffer.sample(100, gamma=0.9, n_step=3) for buffer in (a, b))
    for name, column in native.items():
        np.testing.assert_allclose(column, quantized[name], atol=1e-4)
    assert b.nbytes < a.nbytes
