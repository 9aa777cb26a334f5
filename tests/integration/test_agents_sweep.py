"""A sweep of several policies, from a spec to its report, its models and its evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from mlflow_client import mlflow_client

from analysis.report import write_report
from analysis.results.load import load_sweep
from experiments import run
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.sweep.load import load_spec
from trainables import Policy

OBJECTIVE = "module/a/episode_return_mean"
SPEC = {
    "name": "agents",
    "trainable": "PPO",
    "config": {
        "env": "multi_agent_cartpole",
        "env_config": {"num_agents": 3},
        "num_envs_per_env_runner": 2,
        "train_batch_size_per_learner": 60,
        "minibatch_size": 30,
        "num_epochs": 1,
        "evaluation_interval": 1,
        "evaluation_duration": 2,
        "model": {"fcnet_hiddens": [8]},
        "policies": ["a", "b"],
        "policy_mapping_fn": {"agent_0": "a", "*": "b"},
    },
    "search_space": {"lr": {"grid": [0.001, 0.01]}},
    "search": "grid",
    "objective": {"metric": OBJECTIVE, "mode": "max"},
    "stop": {"training_iteration": 2},
    "checkpoint": {"at_end": True},
}

pytestmark = pytest.mark.usefixtures("ray_here")


def test_a_spec_of_several_policies_runs_to_its_end(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    file = tmp_path / "agents.yaml"
    mlflow_keys = {"enabled": True, "tracking_uri": uri, "log_model": True, "register_as": "poles"}
    file.write_text(
        yaml.safe_dump({**SPEC, "storage": str(tmp_path / "runs"), "mlflow": mlflow_keys})
    )
    results = run(load_spec(file))
    folder = Path(results.experiment_path)
    records = load_sweep(folder)
    assert len(records.trials) == 2
    for trial in records.trials:
        for name in (OBJECTIVE, "agent/agent_2/episode_return_mean", f"evaluation/{OBJECTIVE}"):
            assert trial.frame[name].notna().any(), name

    said = json.loads((folder / "best" / "export.json").read_text())
    assert said["metric"] == OBJECTIVE and said["policies"] == ["a", "b"]
    assert Policy.load(folder / "best" / "b").metadata["algorithm"] == "PPO"
    assert {*evaluate_folder(folder, episodes=1).modules} == {"a", "b"}
    assert {*evaluate_folder(records.trials[0].path, episodes=1).modules} == {"a", "b"}
    page = write_report(folder).read_text(encoding="utf-8")
    assert OBJECTIVE in page

    client = mlflow_client(uri)
    (experiment,) = [e for e in client.search_experiments() if e.name != "Default"]
    models = client.search_logged_models([experiment.experiment_id])
    assert sorted(model.name for model in models) == ["a", "b"]
    assert {m.name for m in client.search_registered_models()} == {"poles-a", "poles-b"}
    runs = client.search_runs([experiment.experiment_id])
    assert any(OBJECTIVE in found.data.metrics for found in runs)
