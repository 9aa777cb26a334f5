"""Users see which trials of a sweep shared a process: in MLflow, in tables, in the report."""

from __future__ import annotations

from pathlib import Path

from mlflow.tracking import MlflowClient

from analysis import trials_frame
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep


def test_a_sweep_says_which_trials_shared_a_process(tmp_path: Path) -> None:
    spec = {
        "name": "told",
        "trainable": "PPO",
        "config": {
            "env": "CartPole-v1",
            "num_envs_per_env_runner": 4,
            "train_batch_size_per_learner": 128,
            "minibatch_size": 64,
            "num_epochs": 1,
        },
        "search_space": {"lr": {"grid": [1e-3, 3e-4, 1e-4, 3e-5]}},
        "stop": {"training_iteration": 3},
        "resources": {"num_cpus": 2},
        "storage": str(tmp_path / "runs"),
        "mlflow": {"log_model": False},
        "trial_batching": "auto",
    }
    sweep = Sweep.of(make_spec(spec))
    outcome = run_sweep(sweep)
    assert not outcome.failures
    by_trial = {r.metrics["trial_id"]: r.metrics["host"] for r in outcome.results}
    assert sorted(by_trial.values()) == [0, 0, 1, 1]

    client = MlflowClient(sweep.tracking_uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    tags = {run.data.tags.get("tunescape.trial_id"): run.data.tags for run in runs}
    parent = tags.pop(None)
    assert {parent[f"tunescape.num_{what}"] for what in ("hosts", "places")} == {"2", "4"}
    found = {trial_id: trial["tunescape.host"] for trial_id, trial in tags.items()}
    assert found == {trial_id: str(host) for trial_id, host in by_trial.items()}
    assert "4 trials in 2 processes" in parent["mlflow.note.content"]
    assert all("host" not in {*run.data.metrics, *run.data.params} for run in runs)
    logged = [run for run in runs if "episode_return_mean" in run.data.metrics]
    assert len(logged) == 4

    frame = trials_frame(sweep.folder).set_index("trial_id")
    assert frame["host"].to_dict() == by_trial
    assert "4 trials in 2 processes" in (sweep.folder / "report.html").read_text()
