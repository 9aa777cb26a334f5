"""Environments that fail and are replaced: what becomes of the rows around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from runners import policy_for, runner_of
from tiers import rarely

from trainables import A2CConfig, APPOConfig, DQNConfig, IMPALAConfig, PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.learning.returns import gae
from trainables.runtime.envs.curriculum import TaskSettableEnv
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.sub_environment import RESTARTS, SubEnvironmentError
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.sampling.sampling_worker import Episodes

RESTART = EnvOptions(restart=True)


class CrashingEnv(TaskSettableEnv):
    """An observation is (instance, episode, step); `crashes` are (instance, episode, step).

    Step -1 crashes in the reset. The reward of a step is the number of the step that it leads to.
    """

    observation_space = gym.spaces.Box(-10, 100, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    made = 0
    seeds: list[int | None]

    def __init__(self, env_config: Any):
        self.crashes = [tuple(c) for c in env_config["crashes"]]
        mine = env_config.vector_index == env_config.get("slot", 0)
        self.instance = CrashingEnv.made if mine else -1
        CrashingEnv.made += mine
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self._maybe_crash(-1)
        self.first_seed = seed
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self._maybe_crash(self.t)
        self.t += 1
        return self._obs(), self.t, self.t == 4, False, {}

    def _maybe_crash(self, step: int) -> None:
        for crash in ((self.instance, self.episode, step), ("any", "any", step)):
            if crash in self.crashes:
                raise RuntimeError(f"crash in {step}")

    def _obs(self) -> np.ndarray:
        return np.array([self.instance, self.episode, self.t], np.float32)


@pytest.fixture(autouse=True)
def count_from_zero() -> None:
    CrashingEnv.made = 0


def sampled(crashes: list[Any], num_steps: int = 9, **config: Any) -> tuple[Rollout, Episodes]:
    env = make_vector_env(CrashingEnv, {"crashes": crashes, **config}, 2, options=RESTART)
    rollouts, episodes = runner_of(env).sample(num_steps)
    return rollouts["default_policy"], episodes


def test_rows_around_a_crash() -> None:
    """Slot 0 crashes in its third step; slot 1 knows nothing of it."""
    rollout, episodes = sampled([(0, 0, 2)])
    rows = rollout.obs[:, 0].tolist()
    assert rows[:5] == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1]]
    assert rollout.valid[:, 0].tolist() == [True] * 2 + [False] + [True] * 4 + [False, True]
    assert rollout.rewards[:, 0].tolist() == [1, 2, 0, 1, 2, 3, 4, 0, 1]
    assert rollout.continues[:, 0].tolist() == [True, False, False] + [True] * 3 + [False] * 3
    assert rollout.terminated[:, 0].tolist() == [False] * 6 + [True, False, False]
    assert not rollout.truncated.any()
    assert rollout.valid[:, 1].tolist() == [True] * 4 + [False] + [True] * 4
    assert rollout.continues[:, 1].tolist() == [True] * 3 + [False] * 2 + [True] * 3 + [False]
    assert (episodes.returns, episodes.lengths) == ([10, 10, 10], [4, 4, 4])
    assert episodes.num_restarts == 1


def test_the_row_before_bootstraps_and_the_crash_moves_no_advantage() -> None:
    rollout, _ = sampled([(0, 0, 2)])
    values = torch.arange(20.0).view(10, 2)
    columns = [
        torch.from_numpy(c) for c in (rollout.rewards, rollout.terminated, rollout.continues)
    ]

    def advantages() -> torch.Tensor:
        return gae(columns[0], values[:-1], values[1:], columns[1], columns[2], 0.5, 0.9)[:, 0]

    one = advantages()
    assert one[1] == 2 + 0.5 * values[2, 0] - values[1, 0]
    columns[0][2] = 1e9  # what the crashing step gave is not known
    assert one[:2].tolist() == advantages()[:2].tolist()


def test_a_crash_in_a_reset_shows_no_row_of_its_own() -> None:
    rollout, episodes = sampled([(0, 1, -1)])
    assert rollout.obs[4:6, 0].tolist() == [[0, 0, 4], [1, 0, 0]]
    assert rollout.valid[:, 0].tolist() == [True] * 4 + [False] + [True] * 4
    assert (episodes.returns, episodes.num_restarts) == ([10] * 4, 1)


def test_the_first_row_of_a_rollout_crashes() -> None:
    env = make_vector_env(CrashingEnv, {"crashes": [(0, 0, 2)]}, 1, options=RESTART)
    runner = runner_of(env)
    runner.sample(2)
    rollout = runner.sample(2)[0]["default_policy"]
    assert rollout.obs[:, 0].tolist() == [[0, 0, 2], [1, 0, 0], [1, 0, 1]]
    assert rollout.valid[:, 0].tolist() == [False, True]


def test_fresh_environments_have_new_seeds_and_the_task() -> None:
    env: Any = make_vector_env(
        CrashingEnv, {"crashes": [(0, 0, 1), (1, 0, -1), (2, 0, 2)]}, 1, options=RESTART
    )

    def play() -> list[Any]:
        CrashingEnv.made = 0
        env.envs[0].env = CrashingEnv(env.envs[0].context)
        env.envs[0].action_space.seed(1)
        env.reset(seed=[5])
        env.envs[0].set_task("hard")
        seeds, marks = [], []
        for _ in range(6):
            marks.append(env.step(np.zeros(1, np.int64))[4].get(RESTARTS, [0])[0])
            inner = env.envs[0].unwrapped
            assert inner.get_task() == "hard"
            seeds.append((inner.instance, inner.first_seed, int(inner.action_space.sample())))
        assert marks == [0, 2, 0, 0, 1, 0]
        return seeds

    seeds = play()
    assert len({seed for _, seed, _ in seeds}) == 3 and None not in seeds[0]
    assert seeds == play()


def test_too_many_failures_in_a_row_end_the_trial() -> None:
    env = make_vector_env(CrashingEnv, {"crashes": [("any", "any", 0)]}, 1, options=RESTART)
    env.reset(seed=[0])
    for _ in range(5):
        env.step(np.zeros(1, np.int64))
    says = (
        "slot 0 of env runner 0: step raised RuntimeError: crash in 0; it failed 6 times in a row"
    )
    with pytest.raises(SubEnvironmentError, match=says):
        env.step(np.zeros(1, np.int64))
    env = make_vector_env(CrashingEnv, {"crashes": [("any", "any", -1)]}, 1, options=RESTART)
    with pytest.raises(
        SubEnvironmentError, match="start raised RuntimeError: crash in -1; it fail"
    ):
        env.reset(seed=[0])


def test_good_steps_between_failures_do_no_harm() -> None:
    rollout, episodes = sampled([("any", "any", 3)], 80)
    assert episodes.num_restarts == 40 and not episodes.returns
    assert rollout.valid.sum() == 120


def test_evaluation_leaves_broken_episodes_out() -> None:
    env = make_vector_env(CrashingEnv, {"crashes": []}, 1)
    policy = policy_for(env)
    CrashingEnv.made = 0
    result = evaluate_policy(
        policy, CrashingEnv, {"crashes": [(0, 1, 2)]}, num_episodes=6, options=RESTART
    )
    assert result.returns.tolist() == [10] * 6 and result.lengths.tolist() == [4] * 6


@pytest.mark.parametrize("algorithm", [PPOConfig, DQNConfig])
def test_training_counts_restarts_over_its_life(tmp_path: Path, algorithm: Any) -> None:
    config = (
        algorithm()
        .environment(CrashingEnv)
        .environment(env_config={"crashes": [(0, 0, 1), (1, 3, 2), (2, 0, -1)], "slot": 1})
        .env_runners(num_envs_per_env_runner=2)
        .fault_tolerance(restart_failed_sub_environments=True)
        .training(model={"fcnet_hiddens": [8]}, num_epochs=1)
        .debugging(seed=0)
    )
    if algorithm is DQNConfig:
        config.training(num_steps_sampled_before_learning_starts=32, n_step=3)
        config.reporting(min_sample_timesteps_per_iteration=64)
    else:
        config.training(train_batch_size_per_learner=64, minibatch_size=64)
    with config.build() as algo:
        while algo.num_env_steps_sampled < 64:
            result = algo.train()
        assert result["num_sub_environment_restarts"] == 3
        algo.save(str(tmp_path))
    with config.build() as resumed:
        resumed.restore(str(tmp_path))
        assert resumed.train()["num_sub_environment_restarts"] >= 3


def test_native_vector_environments_are_taken_apart_and_others_refused() -> None:
    env: Any = make_vector_env("CartPole-v1", None, 2, options=RESTART)
    assert len(env.envs) == 2
    with pytest.raises(
        ConfigError, match="restart_failed_sub_environments is not supported with e"
    ):
        make_vector_env("envpool:CartPole-v1", None, 2, options=RESTART)


FOUR = [PPOConfig, A2CConfig, IMPALAConfig, APPOConfig]


@pytest.mark.parametrize("config_class", rarely(FOUR, [PPOConfig, IMPALAConfig]))
def test_a_rollout_in_which_nobody_stepped_teaches_nothing(config_class: Any) -> None:
    """Its only rows are those of two environments that were replaced."""
    config = config_class().environment(CrashingEnv, env_config={"crashes": [(0, 0, 0), (1, 0, 0)]})
    config.env_runners(num_envs_per_env_runner=1, rollout_fragment_length=2)
    config.fault_tolerance(restart_failed_sub_environments=True).debugging(seed=0)
    config.environment(disable_env_checking=True)  # which would meet them
    config.training(train_batch_size_per_learner=2)
    if config_class is not A2CConfig:
        config.training(minibatch_size=2)
    with config.build() as algorithm:
        result = algorithm.train()
        assert result["num_sub_environment_restarts"] == 2
        assert np.isfinite(result["learner/default_policy/total_loss"])
        assert all(np.isfinite(w).all() for w in algorithm.get_policy().get_weights().values())
