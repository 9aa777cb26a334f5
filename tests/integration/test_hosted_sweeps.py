"""Sweeps whose trials are members of a few processes: as those of processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from mlflow_client import mlflow_client

from analysis import trials_frame
from experiments.running.results import Outcome
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

RETURN, STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"


def sweep_of(folder: Path, name: str, **keys: Any) -> Sweep:
    data = {
        "name": name,
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 8,
            "train_batch_size_per_learner": 256,
            "minibatch_size": 64,
            "num_epochs": 2,
        },
        "search_space": {"lr": {"grid": [1e-3, 1e-4]}, "seed": {"grid": [0, 1]}},
        "stop": {STEPS: 1024},
        "resources": {"num_cpus": 2},
        "storage": str(folder / "runs"),
        **keys,
    }
    return Sweep.of(make_spec(data))


@pytest.fixture(scope="module")
def hosted(ray_here: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, Outcome]:
    mlflow = {"log_model": False}
    sweep = sweep_of(tmp_path_factory.mktemp("of"), "hosted", trial_batching="auto", mlflow=mlflow)
    assert sweep.at_once == 4
    with drawn():
        outcome = run_sweep(sweep)
    assert not outcome.failures
    return sweep, outcome


def test_trials_of_hosts_are_those_of_processes(
    hosted: tuple[Sweep, Outcome], tmp_path: Path
) -> None:
    def results(outcome: Any) -> dict[tuple[float, int], float]:
        return {(r.config["lr"], r.config["seed"]): r.metrics[RETURN] for r in outcome.results}

    _, outcome = hosted
    apart = run_sweep(sweep_of(tmp_path, "apart", mlflow={"enabled": False}))
    assert results(outcome) == pytest.approx(results(apart))
    assert len({r.metrics["pid"] for r in outcome.results}) == 2  # two hosts


def test_mlflow_tables_and_report_say_which_trials_shared_a_process(
    hosted: tuple[Sweep, Outcome],
) -> None:
    sweep, outcome = hosted
    by_trial = {r.metrics["trial_id"]: r.metrics["host"] for r in outcome.results}
    assert sorted(by_trial.values()) == [0, 0, 1, 1]

    client = mlflow_client(sweep.tracking_uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    tags = {run.data.tags.get("tunescape.trial_id"): run.data.tags for run in runs}
    parent = tags.pop(None)
    assert {parent[f"tunescape.num_{what}"] for what in ("hosts", "places")} == {"2", "4"}
    found = {trial_id: trial["tunescape.host"] for trial_id, trial in tags.items()}
    assert found == {trial_id: str(host) for trial_id, host in by_trial.items()}
    assert "4 trials in 2 processes" in parent["mlflow.note.content"]
    assert all("host" not in {*run.data.metrics, *run.data.params} for run in runs)
    logged = [run for run in runs if RETURN in run.data.metrics]
    assert len(logged) == 4

    frame = trials_frame(sweep.folder).set_index("trial_id")
    assert frame["host"].to_dict() == by_trial
    assert "4 trials in 2 processes" in (sweep.folder / "report.html").read_text()
