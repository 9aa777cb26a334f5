"""Callbacks under Tune, with actors: metrics reach results and MLflow, errors end the trial."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from callback_cases import Counts, Raises, Recreates
from failing_envs import FailingEnv
from mlflow_client import mlflow_client
from ray import tune

from experiments.tracking.logger import MLflowLogger
from trainables import PPO
from trainables.runtime.callbacks.callbacks import CallbackError


def test_under_tune(ray_here: None, tmp_path: Path) -> None:
    """Metrics reach results and MLflow; what a callback raises in an actor ends its trial."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    logger = MLflowLogger(uri, "callbacks", metric="custom_metrics/return_mean")
    config = {
        "env": "CartPole-v1",
        "seed": 0,
        "num_epochs": 1,
        "train_batch_size_per_learner": 512,
        "num_env_runners": 1,
        "num_cpus_per_env_runner": 0,
        "callbacks_class": tune.grid_search([Counts, "callback_cases:Raises"]),
    }
    run_config = tune.RunConfig(
        name="sweep",
        storage_path=str(tmp_path),
        stop={"training_iteration": 2},
        callbacks=[logger],
        verbose=0,
    )
    counts, raises = tune.Tuner(PPO, param_space=config, run_config=run_config).fit()
    logger.close()

    metrics = counts.metrics
    assert metrics["marked"] == 20 and metrics["custom_metrics/runner_max"] == 1
    assert metrics["custom_metrics/steps_sum"] == metrics["num_env_steps_sampled"]
    assert metrics["custom_metrics/return_mean"] == metrics["episode_return_mean"]
    runs = mlflow_client(uri).search_runs(["0", "1"])
    [run] = [r for r in runs if r.data.tags.get("tunescape.trial_id") == metrics["trial_id"]]
    names = ["marked", *(f"custom_metrics/return_{what}" for what in ("mean", "min", "max"))]
    assert {n: run.data.metrics[n] for n in names} == {n: metrics[n] for n in names}

    message = "CallbackError: callback Raises.on_episode_end raised KeyError: 'no such thing'"
    assert str(raises.error).count(message) == 1


def test_env_runners_that_are_made_again(ray_here: None, tmp_path: Path) -> None:
    """Their callbacks are new; what callbacks raise is no failure that is tolerated."""
    config = {
        "env": FailingEnv,
        "env_config": {"folder": str(tmp_path)},
        "num_env_runners": 2,
        "num_cpus_per_env_runner": 0.5,
        "num_envs_per_env_runner": 2,
        "train_batch_size_per_learner": 88,
        "minibatch_size": 40,
        "num_epochs": 1,
        "restart_failed_env_runners": True,
        "evaluation_interval": 1,
        "evaluation_duration": 3,
        "evaluation_num_env_runners": 1,
        "callbacks_class": Recreates,
    }
    with PPO(config=config) as algo:
        result = algo.train()
        assert result["evaluation/custom_metrics/played_sum"] == 3
        assert result["custom_metrics/sampled_sum"] == result["num_episodes"]
        assert "custom_metrics/played_sum" not in result  # evaluation has its own
        (tmp_path / "kill-1").touch()
        until = time.monotonic() + 300
        while "custom_metrics/recreated_max" not in (result := algo.train()):
            assert time.monotonic() < until
        assert result["custom_metrics/recreated_max"] == 1
        first, second = algo.env_runners.foreach_env_runner(
            lambda runner: runner.callbacks.objects[0].num_fragments
        )
        assert first < second
        algo.reset_config(config | {"callbacks_class": Raises})
        message = r"^callback Raises\.on_episode_end raised KeyError: 'no such thing'"
        with pytest.raises(CallbackError, match=message):
            algo.train()
