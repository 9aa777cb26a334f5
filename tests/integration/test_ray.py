"""Algorithms under Ray: env-runner actors, placement, and Tune."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining
from small_ray import small_ray
from small_runs import PlacedOnFakeGPU, is_asynchronous, samples, settings_of, without_clocks
from tiers import rarely

from trainables import PPO, Algorithm, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with small_ray(num_cpus=4, num_gpus=1):
        yield


TWO_RUNNERS: dict[str, Any] = {"num_env_runners": 2, "observation_filter": "MeanStdFilter"}


def remote(name: str = "PPO", **more: Any) -> Algorithm:
    return get_algorithm(name)(config=settings_of(name, **{**TWO_RUNNERS, **more}))


SAMPLING = [name for name in algorithm_names() if samples(name)]


IN_STEP = [name for name in SAMPLING if not is_asynchronous(name)]


@pytest.mark.parametrize("name", rarely(IN_STEP, ["PPO"]))
def test_two_runs_with_two_env_runners_are_equal_to_the_bit(name: str, tmp_path: Path) -> None:
    """And a resumed one goes on exactly, with two env runners as well."""
    with remote(name) as one:
        results = [without_clocks(one.train()) for _ in range(2)]
        one.save(str(tmp_path / "c"))
        results.append(without_clocks(one.train()))
        one.reset_config(settings_of(name, num_env_runners=2, seed=9))  # in the same processes
        assert one.train()["episode_return_mean"] != results[0]["episode_return_mean"]
    with Algorithm.from_checkpoint(tmp_path / "c") as two:  # in others
        result = without_clocks(two.train())
        two.reset(settings_of(name, **TWO_RUNNERS))
        assert [without_clocks(two.train()) for _ in range(3)] == results
    result.pop("config")
    expected = {k: v for k, v in results[-1].items() if k != "config"}
    assert result == expected


@pytest.mark.parametrize("name", rarely(SAMPLING, ["PPO", "IMPALA"]))
def test_env_runners_hold_what_is_running_of_whole_episodes(name: str) -> None:
    def held(runner: Any) -> tuple[list[int], list[int]]:
        return runner.recorders[DEFAULT_MODULE_ID].whole._running.tolist(), runner._lengths.tolist()

    with remote(name, batch_mode="complete_episodes", num_env_runners=1) as algo:
        for _ in range(2):
            result = algo.train()
        for steps, lengths in algo.env_runners.foreach_env_runner(held):
            assert steps == lengths  # of the episode that each slot is in
    assert result["num_env_steps_sampled_lifetime"] > 0
    assert all(np.isfinite(v) for v in result.values() if isinstance(v, float))


def test_env_runners_are_several_processes_with_the_learners_weights() -> None:
    with remote() as algo:
        algo.train()
        assert algo.env_runners.foreach_env_runner(lambda runner: runner.worker_index) == [1, 2]
        mine = algo.get_weights()["default_policy"]
        for weights in algo.env_runners.foreach_worker(lambda runner: runner.get_weights()):
            for key, value in weights["default_policy"].items():
                np.testing.assert_array_equal(value, mine[key])
        means = algo.env_runners.foreach_env_runner(
            lambda runner: runner.policy.observations.filter.moments.mean  # type: ignore[union-attr]
        )
        own_filter = algo.get_policy().observations.filter
        assert own_filter is not None
        for mean in means:
            np.testing.assert_array_equal(mean, own_filter.moments.mean)
        workers = algo.workers
        by_index = {"func": lambda worker: worker.worker_index, "timeout_seconds": 60}
        assert workers.foreach_worker(**by_index, local_worker=True) == [0, 1, 2]
        assert workers.foreach_worker(**by_index, remote_worker_ids=[2]) == [2]
        contexts = workers.foreach_env_with_context(
            lambda env, context: (env.num_envs, context.worker_index, context.num_rollout_workers)
        )
        assert [made[1:] for (made,) in contexts] == [(1, 2), (2, 2)]
        assert workers.foreach_env(lambda env: env.num_envs) == [[m[0]] for (m,) in contexts]
        ids = workers.foreach_policy(lambda policy, policy_id: policy_id)
        assert ids == ["default_policy"] * 2
        # The runners' environments and exploration differ.
        samples = algo.env_runners.foreach_env_runner(lambda runner: runner.sample(5)[0])
        first, second = (sample["default_policy"].obs for sample in samples)
        assert not np.array_equal(first, second)
        # One that dies ends training with its cause.
        pids = algo.env_runners.foreach_env_runner(lambda runner: os.getpid())
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(RuntimeError, match="env runner 2 died"):
            algo.train()


def test_the_local_worker_is_the_master_copy() -> None:
    with remote(num_learners=1, num_cpus_per_learner=0.5, num_cpus_per_env_runner=0.5) as algo:
        local = algo.workers.local_worker()
        assert local.policy is algo.get_policy() and local.get_policy() is local.policy
        zeros = {name: 0 * part for name, part in local.get_weights()["default_policy"].items()}
        local.set_weights({"default_policy": zeros})
        algo.workers.sync_weights()
        for weights in algo.workers.foreach_worker(lambda worker: worker.get_weights()):
            assert not any(part.any() for part in weights["default_policy"].values())
        algo.sync_weights()  # what the learner actor has
        assert type(local).__name__ == "LocalWorker"
        assert not any(part.any() for part in algo.get_weights()["default_policy"].values())


def test_an_environment_that_fails_in_an_actor_is_named_and_frees_its_resources() -> None:
    with pytest.raises(Exception, match=r"CartPole-v1.*no_such_argument"):
        remote(env_config={"no_such_argument": 1})
    wait_until_all_is_free()


def test_more_env_runners_than_the_cluster_holds_are_refused() -> None:
    """They would wait for ever, and so would whoever asked for them."""
    with pytest.raises(ConfigError, match=r"needs 9 CPU; the nodes have \(4 CPU, 1 GPU\)"):
        PPO(config=settings_of("PPO", num_env_runners=9))
    wait_until_all_is_free()  # nothing is left over


def wait_until_all_is_free() -> None:
    """A killed process gives its CPU back a moment later."""
    deadline = time.monotonic() + 120
    while ray.available_resources().get("CPU") != 4:
        assert time.monotonic() < deadline, ray.available_resources()
        time.sleep(0.1)


def test_a_trial_runs_inside_its_placement_group_with_the_gpu_in_the_driver(tmp_path: Path) -> None:
    """A faked logical GPU; three bundles on four CPUs, so that two such trials never fit."""
    tuner = tune.Tuner(
        PlacedOnFakeGPU,
        param_space=settings_of("PPO", num_env_runners=2, num_gpus_per_learner=1, fake_gpus=True),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    )
    result = tuner.fit()[0]
    assert result.error is None
    assert result.metrics is not None
    assert result.metrics["in_my_group"] == 1
    assert (result.metrics["my_gpus"], result.metrics["runner_gpus"]) == (1, 0)


@pytest.mark.full("test_a_trial_runs_inside_its_placement_group_with_the_gpu_in_the_driver")
def test_faked_gpus_start_where_there_are_none(tmp_path: Path) -> None:
    """They are not asked for: two learners here, on a cluster with a GPU less than they have."""
    faked = {"num_learners": 2, "num_gpus_per_learner": 1, "fake_gpus": True}
    tuner = tune.Tuner(
        PPO,
        param_space=settings_of("PPO", **faked),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0
        ),
    )
    result = tuner.fit()[0]
    assert result.error is None
    assert result.metrics is not None
    assert result.metrics["num_gpus"] == 0


@pytest.mark.parametrize(
    "by", rarely(["name and config object", "class and dict"], ["class and dict"])
)
def test_tuner_sweeps_and_reuses_actors(by: str, tmp_path: Path) -> None:
    space = settings_of("PPO") | {"lr": tune.grid_search([1e-3, 1e-4, 1e-5])}
    as_object = by == "name and config object"
    tuner = tune.Tuner(
        "PPO" if as_object else PPO,
        param_space=PPOConfig.from_dict(space) if as_object else space,
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=1),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 2}, verbose=0
        ),
    )
    results = tuner.fit()
    assert not results.errors
    metrics = [result.metrics or {} for result in results]
    assert [m["learner/default_policy/curr_lr"] for m in metrics] == [1e-3, 1e-4, 1e-5]
    assert len({m["pid"] for m in metrics}) == 1  # one process for all three trials
    best = results.get_best_result("episode_return_mean", "max")
    assert best.checkpoint is not None
    with best.checkpoint.as_directory() as folder, PPO.from_checkpoint(folder) as algo:
        assert algo.training_iteration == 2


# ---------------------------------------------------------------------- population-based training


@pytest.mark.full("test_population_based_training_keeps_the_buffer_or_is_refused")
def test_population_based_training_may_use_older_names(tmp_path: Path) -> None:
    """Of settings that a config object has by their newer names."""
    config = get_algorithm("PPO").config_class().update_from_dict(settings_of("PPO"))
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"train_batch_size": [512, 768], "num_sgd_iter": [2, 3]},
    )
    results = tune.Tuner(
        PPO,
        param_space=config.env_runners(num_env_runners=0).training(minibatch_size=None),
        tune_config=tune.TuneConfig(
            scheduler=scheduler, metric="episode_reward_mean", mode="max", num_samples=2
        ),
        run_config=tune.RunConfig(
            name="pbt", storage_path=str(tmp_path), stop={"training_iteration": 3}, verbose=0
        ),
    ).fit()
    assert not results.errors
    for result in results:
        assert result.config is not None and result.metrics is not None
        assert result.metrics["num_env_steps_sampled"] > 400
        assert result.config["num_sgd_iter"] in (2, 3)


@pytest.mark.parametrize(
    ("name", "keeps_buffer"),
    [
        ("DQN", True),
        pytest.param("SAC", True, marks=pytest.mark.full),
        pytest.param("DQN", False, marks=pytest.mark.full),
    ],
)
def test_population_based_training_keeps_the_buffer_or_is_refused(
    name: str, keeps_buffer: bool, tmp_path: Path
) -> None:
    """An exploit pauses the trial and goes on from the donor's checkpoint."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": tune.loguniform(1e-5, 1e-3)},
        quantile_fraction=0.5,
        resample_probability=1.0,
        synch=keeps_buffer,  # a trial that is refused would keep the other one waiting
    )
    settings = settings_of(name, store_buffer_in_checkpoints=keeps_buffer, num_env_runners=0)
    results = tune.Tuner(
        get_algorithm(name),
        param_space=settings | {"lr": tune.grid_search([1e-4, 5e-4])},
        tune_config=tune.TuneConfig(
            scheduler=scheduler,
            metric="episode_return_mean",
            mode="max",
            reuse_actors=True,
            max_concurrent_trials=2,
        ),
        run_config=tune.RunConfig(
            name="pbt",
            storage_path=str(tmp_path),
            # Long enough for the trials to meet, even if one starts late.
            stop={"training_iteration": 5 if keeps_buffer else 40},
            verbose=0,
        ),
    ).fit()
    if not keeps_buffer:
        assert any("store_buffer_in_checkpoints" in str(error) for error in results.errors)
        return
    assert not results.errors
    rates = {
        value
        for result in results
        for column, values in result.metrics_dataframe.items()
        if "/curr_" in column and column.endswith("lr")
        for value in values
    }
    assert rates - {1e-4, 5e-4}  # a mutation reached the optimiser
    for result in results:
        steps = result.metrics_dataframe["replay/num_steps"]
        assert steps.is_monotonic_increasing  # no trial began with an empty buffer again
