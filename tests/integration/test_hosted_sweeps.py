"""Sweeps whose trials are members of a few processes: as those of processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

RETURN, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"


def spec(tmp_path: Path, name: str, **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 8,
            "train_batch_size_per_learner": 256,
            "minibatch_size": 64,
            "num_epochs": 2,
        },
        "search_space": {"lr": {"grid": [1e-3, 3e-4, 1e-4]}, "seed": {"grid": [0, 1]}},
        "stop": {STEPS: 2048},
        "resources": {"num_cpus": 2},
        "storage": str(tmp_path / "runs"),
        "mlflow": {"enabled": False},
        **keys,
    }


def results(outcome: Any) -> dict[tuple[float, int], float]:
    return {(r.config["lr"], r.config["seed"]): r.metrics[RETURN] for r in outcome.results}


def test_trials_of_hosts_are_those_of_processes(tmp_path: Path) -> None:
    apart = run_sweep(Sweep.of(make_spec(spec(tmp_path, "apart"))))
    sweep = Sweep.of(make_spec(spec(tmp_path, "hosted", trial_batching="auto")))
    assert sweep.at_once == 6
    hosted = run_sweep(sweep)
    assert not hosted.failures
    assert results(hosted) == pytest.approx(results(apart))
    assert len({r.metrics["pid"] for r in hosted.results}) == 2  # two hosts
