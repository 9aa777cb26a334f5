"""A sweep over an environment that never ends an episode: its stop criterion holds all the same."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tiers import rarely

from analysis import load_sweep
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

ENV_STEPS = "num_env_steps_sampled_lifetime"
PPO = {"num_envs_per_env_runner": 4, "train_batch_size_per_learner": 500, "num_epochs": 1}

pytestmark = pytest.mark.usefixtures("ray_here")


@pytest.mark.parametrize("scheduler", rarely(["fifo", "asha"], ["asha"]))
def test_the_stop_criterion_holds_without_an_episode(
    tmp_path: Path, scheduler: str, caplog: pytest.LogCaptureFixture
) -> None:
    judged: dict[str, Any] = {"algorithm": scheduler}
    if scheduler == "asha":
        judged |= {"grace_period": 1000, "max_t": 6000}
    spec = make_spec(
        {
            "name": "sweep",
            "trainable": "PPO",
            "storage": str(tmp_path),
            "config": {"env": "fakes:EndlessEnv", "env_config": {"horizon": 10**9}, **PPO},
            "search": "tpe",
            "search_space": {"lr": {"loguniform": [1e-4, 1e-3]}},
            "scheduler": judged,
            "num_samples": 2,
            "stop": {ENV_STEPS: 6000},
            "mlflow": {"enabled": False},
        }
    )
    with caplog.at_level(logging.WARNING):
        outcome = run_sweep(Sweep.of(spec))
    assert not outcome.interrupted and not outcome.failures and not outcome.succeeded
    assert "finite value of 'episode_return_mean'" in outcome.note
    assert caplog.text.count("env 'fakes:EndlessEnv': no episode has ended in") == 1
    for trial in load_sweep(outcome.folder).trials:
        assert trial.status == "TERMINATED"
        steps = trial.frame[ENV_STEPS].tolist()
        assert steps[0] < 3000 and len(steps) > 3 and 6000 <= steps[-1] < 6600
        assert trial.frame["episode_return_mean"].isna().all()
