"""Previous actions and rewards: stored beside observations, the same in training and acting."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.fakes import EncodingVectorEnv, limited_walk
from trainables import Algorithm, Policy, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Rollout
from trainables.core.data.features import PREV_ACTION, PREV_REWARD
from trainables.core.data.spaces import PLAIN
from trainables.core.errors import ConfigError
from trainables.runtime.sampling.env_runner import EnvRunner

MODEL = {
    "fcnet_hiddens": [8],
    "use_lstm": True,
    "lstm_cell_size": 4,
    "max_seq_len": 3,
    "lstm_use_prev_action": True,
    "lstm_use_prev_reward": True,
}


def make_runner(lengths: tuple[int, ...]) -> EnvRunner:
    env: Any = EncodingVectorEnv(3, lengths)
    config = PPOConfig.from_dict({"env": "unused", "model": MODEL})
    policy = Policy(env.single_observation_space, env.single_action_space, MODEL, seed=1)
    return EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(0))


def sample(runner: EnvRunner, num_steps: int) -> Rollout:
    return runner.sample(num_steps)[0]["default_policy"]


@pytest.mark.parametrize("lengths", [(2, 3, 5), (1, 1, 7)])
def test_a_row_holds_the_action_and_reward_before_it(lengths: tuple[int, ...]) -> None:
    """Over several fragments; rows say where they come from: (slot, episode, step, is_final)."""
    runner = make_runner(lengths)
    fragments = [sample(runner, num_steps) for num_steps in (7, 1, 12, 1, 4)]
    for earlier, later in pairwise(fragments):
        np.testing.assert_array_equal(earlier.obs[-1], later.obs[0])
    rows = np.concatenate([rollout.obs[:-1] for rollout in fragments])
    actions = np.concatenate([rollout.actions for rollout in fragments])
    rewards = np.concatenate([rollout.rewards for rollout in fragments])
    step = rows[PLAIN][..., 2]
    assert (rows[PREV_ACTION][step == 0] == 0).all()
    assert (rows[PREV_REWARD][step == 0] == 0).all()
    follows = step[1:] > 0  # final observations among them
    one_hot = np.eye(2, dtype=np.float32)[actions[:-1]]
    np.testing.assert_array_equal(rows[PREV_ACTION][1:][follows], one_hot[follows])
    np.testing.assert_array_equal(rows[PREV_REWARD][1:, :, 0][follows], rewards[:-1][follows])
    # The reward of a step is the number of the step that it leads to.
    np.testing.assert_array_equal(rows[PREV_REWARD][..., 0], step)


def test_acting_one_by_one_is_acting_in_a_rollout() -> None:
    """`compute_single_action` with the action and reward before is what a rollout's rows are."""
    runner = make_runner((4, 6, 3))
    rollout, policy = sample(runner, 12), runner.policy
    for slot in range(3):
        state: Any = None
        before: dict[str, Any] = {}
        for t in range(12):
            if rollout.obs[PLAIN][t, slot, 3]:  # final: nobody acts
                continue
            if rollout.obs[PLAIN][t, slot, 2] == 0:
                state, before = policy.get_initial_state(), {}
            result = policy.compute_single_action(rollout.obs[PLAIN][t, slot], state, **before)
            action = int(rollout.actions[t, slot])
            inputs = torch.from_numpy(result.extra["action_dist_inputs"])
            logp = policy.distribution.logp(inputs, torch.tensor(action)).item()
            assert logp == pytest.approx(rollout.logp[t, slot], abs=1e-5)
            state = result.state
            before = {"prev_action": action, "prev_reward": rollout.rewards[t, slot]}


def test_what_a_policy_does_not_look_at_is_refused() -> None:
    env = EncodingVectorEnv()
    policy = Policy(env.single_observation_space, env.single_action_space)
    for name in ("prev_action", "prev_reward"):
        with pytest.raises(ConfigError, match=f"{name} = 1 has no effect"):
            policy.compute_single_action(np.zeros(4, np.float32), **{name: 1})


def test_a_resumed_run_goes_on_with_them(tmp_path: Path) -> None:
    config = PPOConfig().environment(limited_walk).env_runners(num_envs_per_env_runner=2)
    config.training(model=MODEL, train_batch_size_per_learner=22, minibatch_size=None, num_epochs=1)
    with config.debugging(seed=0).build() as algorithm:
        algorithm.train()
        algorithm.save(str(tmp_path))
        went_on = algorithm.sample()["default_policy"]
    with Algorithm.from_checkpoint(tmp_path, trust=["tests.fakes:limited_walk"]) as algorithm:
        resumed = algorithm.sample()["default_policy"]
    for name in (PLAIN, PREV_ACTION, PREV_REWARD):
        np.testing.assert_array_equal(resumed.obs[name], went_on.obs[name])
    np.testing.assert_array_equal(resumed.actions, went_on.actions)
    assert (resumed.obs[PREV_ACTION][0] != 0).all()
    assert (resumed.obs[PREV_REWARD][0] != 0).all()
