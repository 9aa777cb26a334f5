"""Curricula: tasks that follow from the last result."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import EncodingVectorEnv, EndlessEnv
from level_envs import LevelEnv, next_level, no_such_thing, one_level_up
from tiers import rarely

from trainables import PPO, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import each_env
from trainables.runtime.envs.make import EnvContext
from trainables.runtime.envs.sub_environment import SubEnvironmentError


class LevelVectorEnv(EncodingVectorEnv):
    def set_task(self, task: int) -> None:
        self.lengths = np.full(self.num_envs, task)


def levels(algo: PPO) -> list[int]:
    runner = algo.env_runners.local_env_runner
    assert runner is not None
    env: Any = runner.env
    return [slot.unwrapped.level for slot in env.envs]


def config(env: Any = LevelEnv, task_fn: Any = next_level) -> PPOConfig:
    return (
        PPOConfig()
        .environment(env, env_task_fn=task_fn)
        .env_runners(num_envs_per_env_runner=2)
        .training(
            train_batch_size_per_learner=64,
            minibatch_size=64,
            num_epochs=1,
            model={"fcnet_hiddens": [8]},
        )
        .debugging(seed=0)
    )


def test_every_slot_gets_the_task_that_follows_from_the_result() -> None:
    with config().build() as algo:
        assert levels(algo) == [4, 4]
        algo.train()
        assert levels(algo) == [8, 9]
        algo.train()
        assert levels(algo) == [12, 13]
        assert max(algo.env_runners.sample()[1].lengths) in (12, 13)


@pytest.mark.parametrize("remote", rarely([False, True], [True]))
def test_a_task_function_gets_the_environment_itself(remote: bool) -> None:
    given = config(task_fn=one_level_up).env_runners(remote_worker_envs=remote)
    with given.build() as algo:
        algo.train()
        algo.train()
        runner: Any = algo.env_runners.local_worker()
        context = EnvContext({})
        found = each_env(runner.env, lambda env, its: (env.marked, env.level, its.remote), context)
        assert found == [(True, 6, remote)] * 2


def test_what_cannot_leave_a_slots_process_is_one_error() -> None:
    with config().env_runners(remote_worker_envs=True).build() as algo:
        runner: Any = algo.env_runners.local_worker()
        with pytest.raises(ConfigError, match="what apply returned cannot cross processes"):
            each_env(runner.env, lambda env, context: lambda: env, EnvContext({}))
        with pytest.raises(SubEnvironmentError, match="KeyError: 'no such thing'"):
            each_env(runner.env, no_such_thing, EnvContext({}))
        assert each_env(runner.env, lambda env, context: env.level, EnvContext({})) == [4, 4]
        algo.env_runners.sample()


def test_a_slot_passes_on_what_its_environment_has() -> None:
    with config().build() as algo:
        runner: Any = algo.env_runners.local_worker()
        algo.train()
        assert runner.env.envs[0].get_task() == 8 == runner.env.envs[0].level
        with pytest.raises(AttributeError, match="no_such"):
            _ = runner.env.envs[0].no_such
        with pytest.raises(AttributeError):
            _ = copy.copy(runner.env.envs[0])._hidden


def test_gymnasiums_own_wrappers_are_taken_off() -> None:
    with config("CartPole-v1", None).build() as algo:
        runner: Any = algo.env_runners.local_worker()
        assert each_env(runner.env, lambda env, context: env, EnvContext({})) == [runner.env]
    with config("Acrobot-v1", None).build() as algo:
        runner = algo.env_runners.local_worker()
        found = each_env(
            runner.env, lambda env, its: (type(env).__name__, its.vector_index), EnvContext({})
        )
        assert found == [("AcrobotEnv", 0), ("AcrobotEnv", 1)]


def test_a_resumed_run_goes_on_with_its_task(tmp_path: Path) -> None:
    with config().build() as algo:
        algo.train()
        algo.train()
        algo.save(str(tmp_path))
    with config().build() as resumed:
        resumed.restore(str(tmp_path))
        assert levels(resumed) == [12, 13]
        assert set(resumed.env_runners.sample()[1].lengths) == {12, 13}
    with pytest.raises(CheckpointError, match="env_task_fn = 'level_envs:next_level'"):
        PPO.from_checkpoint(tmp_path, trust=["level_envs:LevelEnv"])
    trust = ["level_envs:LevelEnv", "level_envs:next_level"]
    with PPO.from_checkpoint(tmp_path, trust=trust) as again:
        again.train()
        assert levels(again) == [16, 17]


def test_a_name_is_resolved() -> None:
    with config(task_fn="level_envs:next_level").build() as algo:
        algo.train()
        assert levels(algo) == [8, 9]


def test_another_number_of_slots_deals_the_tasks_out(tmp_path: Path) -> None:
    with config().build() as algo:
        algo.train()
        algo.save(str(tmp_path))
    with config().env_runners(num_envs_per_env_runner=3).build() as resumed:
        resumed.restore(str(tmp_path))
        assert levels(resumed) == [8, 9, 8]


def test_a_vector_environment_has_one_task() -> None:
    def task(result: dict[str, Any], env: Any, context: EnvContext) -> int:
        return 7

    with config(LevelVectorEnv, task).build() as algo:
        algo.train()
        assert set(algo.env_runners.sample()[1].lengths) >= {7}


def test_one_error_where_there_are_no_tasks() -> None:
    for env in (EndlessEnv, "CartPole-v1", "Pendulum-v1"):
        with pytest.raises(ConfigError, match=r"env_task_fn: env '.*' has no method set_task"):
            config(env).build()


def test_below_wrappers() -> None:
    def wrapped(context: EnvContext) -> gym.Env:
        return gym.wrappers.TimeLimit(LevelEnv(), 5)

    with config(wrapped).build() as algo:
        algo.train()
        assert levels(algo) == [8, 9]
