"""Evaluation by actors: the same episodes as in process, beside training, and after a kill."""

import os
import signal
import time
from typing import Any

import pytest
from ray import tune
from small_runs import settings_of
from two_policies import two_policies

from trainables import PPO

pytestmark = pytest.mark.usefixtures("ray_here")

PATIENCE_S = 120


def algorithm(num_actors: int, **more: Any) -> PPO:
    given = {
        "evaluation_num_env_runners": num_actors,
        "evaluation_duration": 4,
        "evaluation_config": {"num_envs_per_env_runner": 2},
        "num_cpus_per_env_runner": 0.5,
        "observation_filter": "MeanStdFilter",
    }
    return PPO(config=settings_of("PPO", **given | more))


def episodes(result: dict[str, Any]) -> dict[str, Any]:
    names = ("episode_return_mean", "episode_return_max", "num_env_steps", "num_episodes")
    return {name: result[name] for name in (*names, "weights_version")}


def test_actors_play_the_episodes_that_the_trials_process_would() -> None:
    with algorithm(0) as plain:
        plain.train()
        expected = episodes(plain.evaluate())
    with algorithm(2, restart_failed_env_runners=True) as algo:
        algo.train()
        assert episodes(algo.evaluate()) == expected
        group = algo.eval_env_runner_group
        [pid, other] = group.foreach_env_runner(lambda runner: os.getpid())
        assert len({pid, other, os.getpid()}) == 3
        os.kill(pid, signal.SIGKILL)
        # Whether it is noticed before or while it plays: the other one plays everything.
        assert episodes(algo.evaluate()) == expected
        until = time.monotonic() + PATIENCE_S
        while (again := algo.evaluate())["num_healthy_workers"] < 2:
            assert time.monotonic() < until
            assert episodes(again) == expected
        pids = group.foreach_env_runner(lambda runner: os.getpid())
        assert pids[0] != pid and pids[1] == other
    until = time.monotonic() + PATIENCE_S
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):  # else they would leak
        assert time.monotonic() < until
        time.sleep(0.1)


def test_actors_play_all_modules_beside_training() -> None:
    names = ("episode_return_mean", "num_env_steps", "num_episodes")

    def played(**settings: Any) -> list[list[float]]:
        with two_policies(evaluation_duration=7, **settings) as algo:
            results = [algo.train() for _ in range(3)]
        return [[result[f"evaluation/{name}"] for name in names] for result in results]

    of_actors = {"evaluation_num_env_runners": 2, "num_cpus_per_env_runner": 0.5}
    between = played()
    assert played(**of_actors) == between
    beside = played(**of_actors, evaluation_parallel_to_training=True)
    assert beside[1:] == between[:-1]  # the weights that an iteration begins with


def test_beside_training_until_it_is_done() -> None:
    settings = {"evaluation_parallel_to_training": True, "evaluation_interval": 1}
    with algorithm(1, **settings) as algo:
        versions = [algo.train()["evaluation/weights_version"] for _ in range(2)]
        assert versions == [0, 1]
        pids = algo.eval_env_runner_group.foreach_env_runner(lambda runner: os.getpid())
        new = algo.config.to_dict() | {"evaluation_duration": "auto", "seed": 1}
        assert algo.reset(new)
        assert algo.eval_env_runner_group.foreach_env_runner(lambda r: os.getpid()) == pids
        result = algo.train()
        assert result["evaluation/num_episodes"] >= 1
        assert result["evaluation/num_timeouts"] == 0


def test_a_trial_has_a_bundle_for_its_evaluation(tmp_path: Any) -> None:
    settings = settings_of(
        "PPO",
        evaluation_num_env_runners=1,
        evaluation_interval=1,
        evaluation_duration=2,
        evaluation_parallel_to_training=True,
    )
    results = tune.Tuner(
        PPO,
        param_space=settings,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0
        ),
    ).fit()
    assert not results.errors
    assert results[0].metrics["evaluation/weights_version"] == 1
    assert results[0].metrics["evaluation/num_healthy_workers"] == 1
