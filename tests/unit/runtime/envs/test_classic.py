"""CartPole without velocities: CartPole in everything but what it shows."""

from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.envs.games.own import STATELESS_CARTPOLE, StatelessCartPoleVectorEnv
from trainables.runtime.envs.make import make_vector_env


def steps(env: Any, count: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [env.step(rng.integers(2, size=env.num_envs))[:4] for _ in range(count)]


def test_it_is_cartpole_without_velocities() -> None:
    seen, full = make_vector_env(STATELESS_CARTPOLE, None, 3), make_vector_env("CartPole-v1", {}, 3)
    assert isinstance(seen, StatelessCartPoleVectorEnv)
    np.testing.assert_array_equal(seen.reset(seed=1)[0], full.reset(seed=1)[0][:, [0, 2]])
    ends = 0
    for one, other in zip(steps(seen, 200), steps(full, 200), strict=True):
        np.testing.assert_array_equal(one[0], other[0][:, [0, 2]])
        assert seen.single_observation_space.contains(one[0][0])
        for mine, theirs in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        ends += int((one[2] | one[3]).sum())
    assert ends > 6, "no autoresets: no test"


def test_a_single_one_sees_and_ends_as_the_slots_do() -> None:
    single = gym.make(STATELESS_CARTPOLE)
    assert single.observation_space == make_vector_env(STATELESS_CARTPOLE).single_observation_space
    obs, _ = single.reset(seed=0)
    state = single.unwrapped.state  # type: ignore[attr-defined]
    np.testing.assert_allclose(obs, np.asarray(state, np.float32)[[0, 2]])
    short = gym.make(STATELESS_CARTPOLE, max_episode_steps=2)
    short.reset(seed=0)
    assert [short.step(0)[3], short.step(1)[3]] == [False, True]
