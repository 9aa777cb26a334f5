"""`batch_mode = "complete_episodes"`: each episode once, whole and in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from failing_envs import FailingEnv
from fakes import EncodingVectorEnv, EndlessEnv
from process_envs import ClockEnv
from small_runs import settings_of
from tiers import covering
from torch import Tensor

from trainables import DQN, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Batch, Rollout
from trainables.core.learning.advantages import with_advantages
from trainables.core.learning.minibatches import unrolled
from trainables.core.policy.policy import Policy
from trainables.ppo import PPOCoefficients, ppo_loss
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.sampling.env_runner import EnvRunner, make_env_runner
from trainables.runtime.sampling.remote_env_runner import RemoteEnvRunner

WHOLE = {"batch_mode": "complete_episodes"}
MEMORY = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [4], "max_seq_len": 3}
LENGTHS = [(2, 3, 5), (4, 4, 4), (1, 1, 40), (30, 2, 17)]


def make_runner(env: Any, frames: int = 1, **settings: Any) -> EnvRunner:
    config = PPOConfig.from_dict({"env": "a fake", **settings})
    policy = Policy(
        env.single_observation_space,
        env.single_action_space,
        config.resolve().model,
        frame_stack=frames,
        seed=1,
    )
    return make_env_runner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(0))


def sample(runner: EnvRunner, num_steps: int) -> Rollout:
    return runner.sample(num_steps)[0]["default_policy"]


def steps_of(rollout: Rollout, slot: int) -> list[tuple[int, int]]:
    """(episode, step) of each row that is trained on, in order."""
    rows = rollout.obs[:-1, slot][rollout.valid[:, slot]]
    return [(int(episode), int(step)) for _, episode, step, _ in rows]


@pytest.mark.parametrize(("lengths", "num_steps"), covering(LENGTHS, [7, 1, 40], strength=1))
def test_each_episode_comes_once_and_whole(lengths: tuple[int, ...], num_steps: int) -> None:
    runner = make_runner(EncodingVectorEnv(3, lengths), **WHOLE)
    seen: list[list[tuple[int, int]]] = [[], [], []]
    for _ in range(25):
        rollouts, episodes = runner.sample(num_steps)
        rollout = rollouts["default_policy"]
        assert rollout.num_env_steps == sum(episodes.lengths) >= 3 * num_steps
        for slot, length in enumerate(lengths):
            steps = steps_of(rollout, slot)
            assert steps[0][1] == 0 and steps[-1][1] == length - 1
            seen[slot] += steps
        ends = rollout.terminated | rollout.truncated
        assert (rollout.continues == (rollout.valid & ~ends))[rollout.valid].all()
        assert not rollout.continues[~rollout.valid].any() and not rollout.continues[-1].any()
        successors = rollout.obs[1:][rollout.valid]
        assert (successors[:, 2] == rollout.obs[:-1][rollout.valid][:, 2] + 1).all()
        assert (rollout.rewards[rollout.valid] == successors[:, 2]).all()
        assert not rollout.follows.any()
    for slot, length in enumerate(lengths):
        expected = [(e, t) for e in range(len(seen[slot]) // length) for t in range(length)]
        assert seen[slot] == expected


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, MEMORY])
def test_rows_are_those_of_fragments(model: dict[str, Any]) -> None:
    """Actions, log-probabilities and all else are as they are where nothing is held back."""
    lengths = (5, 9, 16)
    whole = make_runner(EncodingVectorEnv(3, lengths), model=model, **WHOLE)
    plain = make_runner(EncodingVectorEnv(3, lengths), model=model)
    parts = [sample(plain, 16) for _ in range(20)]
    rollouts = [sample(whole, 16) for _ in range(6)]
    for name in ("actions", "logp", "rewards", "terminated", "truncated", "obs"):
        for slot in range(3):
            once = [getattr(p, name)[: len(p.valid), slot][p.valid[:, slot]] for p in parts]
            mine = [getattr(r, name)[: len(r.valid), slot][r.valid[:, slot]] for r in rollouts]
            expected = np.concatenate(once)
            got = np.concatenate(mine)
            np.testing.assert_array_equal(got, expected[: len(got)])


def test_states_of_sequences_are_those_that_acted() -> None:
    """A recurrent policy says of the rows what it said when it acted, from each stored state."""
    runner = make_runner(EncodingVectorEnv(3, (5, 9, 16)), model=MEMORY, **WHOLE)
    policy = runner.policy
    for _ in range(4):
        rollout = sample(runner, 12)
        assert rollout.states is not None and rollout.state_stride == 3
        for part in rollout.states.values():
            assert len(part) == -(-len(rollout.valid) // 3)
            assert not part[0].any()  # each column begins with an episode
        batch = with_advantages(rollout, policy, runner.config)
        output, rows = unrolled(policy.module, batch)
        logp = policy.distribution.logp(output.dist_inputs, rows["actions"])
        torch.testing.assert_close(logp, rows["logp"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, MEMORY])
def test_stacked_frames_do_not_reach_into_other_episodes(model: dict[str, Any]) -> None:
    runner = make_runner(EncodingVectorEnv(3, (5, 9, 16)), frames=3, model=model, **WHOLE)
    for _ in range(3):
        rollout = sample(runner, 12)
        stacks = runner.policy.observations.seen(rollout)[:-1].numpy()  # [T, N, 3, 4]
        for age in (1, 2):
            older, now = stacks[:, :, 2 - age], stacks[:, :, 2]
            is_there = rollout.valid & (now[..., 2] >= age)
            assert (older[is_there][:, 2] == now[is_there][:, 2] - age).all()
            assert (older[is_there][:, 1] == now[is_there][:, 1]).all()
            assert not older[rollout.valid & (now[..., 2] < age)].any()


def by_hand(rollout: Rollout) -> list[Rollout]:
    """Each episode of a rollout apart, cut out by what its observations say."""
    found = []
    for slot in range(rollout.valid.shape[1]):
        column = rollout.slots(slot, slot + 1)
        episodes = column.obs[:-1, 0, 1]
        for episode in np.unique(episodes[column.valid[:, 0]]):
            (rows,) = np.nonzero((episodes == episode) & column.valid[:, 0])
            part = slice(rows[0], rows[-1] + 1)
            ends = column.terminated[part] | column.truncated[part]
            found.append(
                Rollout(
                    obs=column.obs[rows[0] : rows[-1] + 2],
                    actions=column.actions[part],
                    rewards=column.rewards[part],
                    terminated=column.terminated[part],
                    truncated=column.truncated[part],
                    logp=column.logp[part],
                    valid=np.ones_like(ends),
                    continues=~ends,
                    weights_version=column.weights_version,
                    follows=np.zeros(1, bool),
                )
            )
    return found


def gradient(policy: Policy, batch: Batch) -> Tensor:
    coefficients = PPOCoefficients(clip=0.2, entropy=0.01, kl=0.0, value=0.5, value_clip=None)
    policy.module.zero_grad()
    loss, _ = ppo_loss(*unrolled(policy.module, batch), policy.distribution, coefficients)
    loss.backward()
    grads = [p.grad for p in policy.module.parameters() if p.grad is not None]
    return torch.cat([g.flatten() for g in grads])


def test_ppos_gradient_is_that_of_the_episodes_by_hand() -> None:
    runner = make_runner(EncodingVectorEnv(3, (5, 9, 16)), **WHOLE)
    policy, config = runner.policy, runner.config
    for _ in range(3):
        rollout = sample(runner, 20)
        batch = with_advantages(rollout, policy, config)
        apart = [with_advantages(episode, policy, config) for episode in by_hand(rollout)]
        joined = {name: torch.cat([part[name] for part in apart]) for name in batch}
        assert len(joined["logp"]) == len(batch["logp"]) == rollout.num_env_steps
        torch.testing.assert_close(gradient(policy, batch), gradient(policy, joined))


def test_the_version_of_a_column_is_its_oldest() -> None:
    runner = make_runner(EncodingVectorEnv(2, (4, 38)), **WHOLE)
    runner.weights_version = 7
    assert sample(runner, 4).weights_version.tolist() == [7, 7]  # 40 rows of each slot
    runner.weights_version = 8  # slot 1 has made a step of its next episode
    assert sample(runner, 4).weights_version.tolist() == [8, 7]


def test_an_episode_that_does_not_end_is_an_error() -> None:
    env = make_vector_env(EndlessEnv, {"horizon": 10**9}, 2)
    runner = make_runner(env, max_env_steps_without_episode=200, **WHOLE)
    with pytest.raises(RuntimeError, match=r"env 'a fake': an episode has not ended in \d+ steps"):
        runner.sample(8)


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, MEMORY])
def test_what_is_held_is_part_of_the_state(model: dict[str, Any]) -> None:
    def runner() -> EnvRunner:
        return make_runner(make_vector_env("CartPole-v1", None, 3), model=model, **WHOLE)

    whole, resumed = runner(), runner()
    sample(whole, 20)
    state = whole.get_state()
    expected = [whole.sample(20) for _ in range(3)]
    assert resumed.set_state(state)
    for rollouts, episodes in expected:
        mine, my_episodes = resumed.sample(20)
        assert my_episodes.lengths == episodes.lengths
        for name, column in vars(rollouts["default_policy"]).items():
            np.testing.assert_equal(vars(mine["default_policy"])[name], column)


def test_a_state_of_the_other_mode_begins_new_episodes() -> None:
    """Of what is running, the beginning was given out already."""
    plain = make_runner(make_vector_env("CartPole-v1", None, 3))
    sample(plain, 5)
    whole = make_runner(make_vector_env("CartPole-v1", None, 3), **WHOLE)
    assert not whole.set_state(plain.get_state())
    assert not plain.set_state(whole.get_state())
    rollout = sample(whole, 5)
    assert rollout.num_env_steps == rollout.valid.sum() >= 15


def test_new_episodes_forget_what_is_held() -> None:
    runner = make_runner(EncodingVectorEnv(2, (4, 7)), **WHOLE)
    sample(runner, 3)
    runner.reseed(np.random.SeedSequence(5))
    rollout = sample(runner, 3)
    assert [steps_of(rollout, slot)[0] for slot in (0, 1)] == [(0, 0), (0, 0)]


def test_slots_in_processes_of_their_own() -> None:
    """Each with a clock of its own; slot 1's steps take longer."""
    options = EnvOptions(remote=True)
    env = make_vector_env(ClockEnv, {"sleep": [0.0, 0.002]}, 2, options=options)
    runner = make_runner(env, remote_worker_envs=True, **WHOLE)
    assert isinstance(runner, RemoteEnvRunner)
    seen: list[list[tuple[int, int]]] = [[], []]
    try:
        for _ in range(5):
            rollouts, episodes = runner.sample(9)
            rollout = rollouts["default_policy"]
            assert rollout.num_env_steps == sum(episodes.lengths) >= 18
            for slot in (0, 1):
                seen[slot] += steps_of(rollout, slot)
    finally:
        runner.stop()
    for slot, length in enumerate((3, 4)):
        count = len(seen[slot]) // length
        assert seen[slot] == [(e, t) for e in range(count) for t in range(length)]


def test_a_replaced_environment_ends_its_episode(tmp_path: Path) -> None:
    """What it did is trained on, and bootstraps where it broke off."""
    options = EnvOptions(restart=True)
    env = make_vector_env(FailingEnv, {"folder": str(tmp_path)}, 2, options=options)
    runner = make_runner(env, **WHOLE)
    sample(runner, 3)  # 12 rows of each slot: an episode, one that only resets, a step
    (tmp_path / "raise-0").write_text("")  # the first slot that steps, once
    rollouts, episodes = runner.sample(3)
    rollout = rollouts["default_policy"]
    assert episodes.num_restarts == 1
    assert episodes.lengths == [10]
    broken = rollout.valid & ~rollout.continues & ~(rollout.terminated | rollout.truncated)
    assert broken.sum(0).tolist() == [1, 0]
    assert rollout.valid.sum(0).tolist() == [1, 10]
    assert rollout.obs[:2, 0, 1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}])
def test_whole_episodes_may_be_longer_than_the_replay_buffer(model: dict[str, Any]) -> None:
    """Their length is only known once they are over: hours later, that is no time for an error."""
    settings = settings_of(
        "DQN",
        batch_mode="complete_episodes",
        num_envs_per_env_runner=2,
        replay_buffer_config={"capacity": 40},
        num_steps_sampled_before_learning_starts=10,
        noisy=False,
        model={"fcnet_hiddens": [4], **model},
        min_sample_timesteps_per_iteration=300,
    )
    with DQN(settings) as algo:
        result = algo.train()
        assert algo.num_updates > 0 and algo.experience["default_policy"].num_steps <= 40
    assert result["num_env_steps_sampled_lifetime"] >= 300
