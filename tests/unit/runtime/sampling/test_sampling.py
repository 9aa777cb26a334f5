"""What env runners record, checked against an environment that encodes (slot, episode, step)."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import EncodingVectorEnv
from runners import policy_for, runner_of

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Rollout
from trainables.core.learning.minibatches import minibatches
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.sampling.env_runner import EnvRunner


def make_runner(env: Any, seed: int = 0, **settings: Any) -> EnvRunner:
    config = PPOConfig.from_dict({"env": "unused", **settings})
    policy = policy_for(env, observation_filter=config.observation_filter, seed=1)
    return runner_of(env, config, policy, seed)


def sample(runner: EnvRunner, num_steps: int) -> Rollout:
    return runner.sample(num_steps)[0]["default_policy"]


@pytest.mark.parametrize("lengths", [(2, 3, 5), (4, 4, 4), (1, 1, 7)])
def test_successors_and_invalid_rows(lengths: tuple[int, ...]) -> None:
    """Uniform and staggered ends, over several fragments of one runner."""
    runner = make_runner(EncodingVectorEnv(3, lengths))
    for num_steps in (7, 1, 12):
        rollout = sample(runner, num_steps)
        obs, nxt = rollout.obs[:-1], rollout.obs[1:]
        is_final = obs[..., 3] == 1
        # No row that is trained on starts from a final observation, and only those are left out.
        assert (rollout.valid == ~is_final).all()
        same_episode = obs[..., 1] == nxt[..., 1]
        assert (same_episode == rollout.valid).all()
        assert (nxt[..., 2] == obs[..., 2] + 1)[rollout.valid].all()
        assert (rollout.rewards == nxt[..., 2])[rollout.valid].all()
        assert (rollout.rewards[~rollout.valid] == 0).all()
        ends = rollout.terminated | rollout.truncated
        assert (ends == (nxt[..., 3] == 1))[rollout.valid].all()
        assert (rollout.continues[:-1] == (rollout.valid & ~ends)[:-1]).all()
        assert not rollout.continues[-1].any()  # a fragment's end


def test_fragments_join_without_a_gap() -> None:
    runner, whole = make_runner(EncodingVectorEnv()), make_runner(EncodingVectorEnv())
    parts = [sample(runner, 6), sample(runner, 5)]
    once = sample(whole, 11)
    np.testing.assert_array_equal(np.concatenate([p.obs[:-1] for p in parts]), once.obs[:-1])
    np.testing.assert_array_equal(np.concatenate([p.valid for p in parts]), once.valid)
    np.testing.assert_array_equal(np.concatenate([p.actions for p in parts]), once.actions)
    np.testing.assert_array_equal(parts[0].obs[-1], parts[1].obs[0])


def test_episode_returns_and_lengths() -> None:
    _, episodes = make_runner(EncodingVectorEnv(3, (2, 3, 5))).sample(6)
    # Triangular numbers 1+2, 1+2+3, …; slot 0 ends at rows 1 and 4, slot 1 at 2, slot 2 at 4.
    assert sorted(zip(episodes.lengths, episodes.returns, strict=True)) == [
        (2, 3.0),
        (2, 3.0),
        (3, 6.0),
        (5, 15.0),
    ]


def test_episodes_run_on_over_fragments() -> None:
    runner = make_runner(EncodingVectorEnv(1, (5,)))
    assert runner.sample(3)[1].returns == []
    assert runner.sample(3)[1].returns == [15.0]


def test_only_real_steps_are_counted() -> None:
    rollout = sample(make_runner(EncodingVectorEnv(1, (1,))), 10)
    assert rollout.num_env_steps == 5  # every other row only resets


def test_recorded_log_probs_are_those_of_the_recorded_actions() -> None:
    runner = make_runner(EncodingVectorEnv())
    rollout = sample(runner, 20)
    with torch.no_grad():
        inputs = runner.policy.module.dist_inputs(runner.policy.features(rollout.obs[:-1]))
        logp = runner.policy.distribution.logp(inputs, torch.from_numpy(rollout.actions))
    np.testing.assert_allclose(logp.numpy(), rollout.logp, atol=1e-6)


def test_gymnasium_resets_on_the_next_step_as_assumed() -> None:
    """The library's own vector environments, native and in a loop."""
    for env in (make_vector_env("CartPole-v1", None, 4), make_vector_env("Acrobot-v1", None, 2)):
        rollout = sample(make_runner(env), 600)
        ended = (rollout.terminated | rollout.truncated)[:-1]
        assert ended.any()
        assert (~rollout.valid[1:] == ended).all()
        assert (rollout.rewards[~rollout.valid] == 0).all()


def test_filter_counts_each_frame_once_and_is_frozen_while_sampling() -> None:
    runner = make_runner(EncodingVectorEnv(), observation_filter="MeanStdFilter")
    assert runner.policy.observations.filter is not None
    rollouts = [sample(runner, 7), sample(runner, 4)]
    assert runner.policy.observations.filter.moments.count == 0
    moments = runner.take_filter_moments()[DEFAULT_MODULE_ID]
    frames = np.concatenate([r.obs[:-1].reshape(-1, 4) for r in rollouts]).astype(np.float64)
    assert moments.count == len(frames) == 11 * 3
    np.testing.assert_allclose(moments.mean, frames.mean(0))
    np.testing.assert_allclose(moments.m2 / (len(frames) - 1), frames.var(0, ddof=1))
    assert runner.take_filter_moments()[DEFAULT_MODULE_ID].count == 0


def test_the_same_seed_samples_the_same() -> None:
    rollouts = [
        sample(make_runner(make_vector_env("CartPole-v1", None, 3), s), 50) for s in (4, 4, 5)
    ]
    np.testing.assert_array_equal(rollouts[0].obs, rollouts[1].obs)
    np.testing.assert_array_equal(rollouts[0].actions, rollouts[1].actions)
    assert not (rollouts[0].actions == rollouts[2].actions).all()


def test_integer_observations_are_stored_raw() -> None:
    env = make_vector_env("FrozenLake-v1", None, 2)
    rollout = sample(make_runner(env), 10)
    assert np.issubdtype(rollout.obs.dtype, np.integer)
    assert rollout.obs.shape == (11, 2)


def test_continuous_actions_stay_inside_the_space() -> None:
    env = make_vector_env("Pendulum-v1", None, 2)
    taken: list[np.ndarray] = []
    step = env.step

    def spy(actions: np.ndarray) -> Any:
        taken.append(actions)
        return step(actions)

    env.step = spy
    sample(make_runner(env), 200)
    space = gym.spaces.Box(-2, 2, (1,), np.float32)
    assert all(space.contains(action) for batch in taken for action in batch)
    assert np.ptp(np.concatenate(taken)) > 3  # and use all of it


def test_concatenation_pads_with_rows_that_are_not_trained_on() -> None:
    long, short = (sample(make_runner(EncodingVectorEnv()), n) for n in (8, 5))
    both = Rollout.concatenate([long, short])
    assert both.obs.shape == (9, 6, 4)
    assert both.num_env_steps == long.num_env_steps + short.num_env_steps
    assert not both.valid[5:, 3:].any()
    assert not both.continues[5:, 3:].any() and not both.rewards[5:, 3:].any()
    assert not (both.terminated | both.truncated)[5:, 3:].any()
    np.testing.assert_array_equal(both.obs[:6, 3:], short.obs)
    np.testing.assert_array_equal(both.rewards[:5, 3:], short.rewards)


def test_minibatches_use_each_row_once_an_epoch() -> None:
    batch = {"x": torch.arange(1000), "y": torch.arange(1000) * 2}
    generator = torch.Generator().manual_seed(0)
    parts = list(minibatches(batch, num_epochs=3, minibatch_size=96, generator=generator))
    assert len(parts) == 3 * 11
    assert {len(part["x"]) for part in parts} <= {90, 91}  # no remnant of a few rows
    for epoch in range(3):
        rows = torch.cat([part["x"] for part in parts[epoch * 11 : (epoch + 1) * 11]])
        assert rows.sort().values.tolist() == list(range(1000))
        assert rows.tolist() != list(range(1000))
    assert all((part["y"] == 2 * part["x"]).all() for part in parts)
    assert parts[0]["x"].tolist() != parts[11]["x"].tolist()
