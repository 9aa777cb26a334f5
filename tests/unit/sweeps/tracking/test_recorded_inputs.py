"""Recorded data are inputs of MLflow's runs, by their digest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow_client import mlflow_client

from experiments.commands.recording.record import record_folder
from experiments.tracking.dataset import dataset_inputs, recorded_inputs
from trainables.runtime.offline.inputs import find_source


@pytest.fixture
def data(tmp_path: Path) -> Path:
    record_folder("random", tmp_path / "data", env="CartPole-v1", episodes=2)
    return tmp_path / "data"


def test_a_store_keeps_them(data: Path, tmp_path: Path) -> None:
    client = mlflow_client(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.create_run(client.create_experiment("data"))
    config = {"env": "CartPole-v1", "input_": {str(data): 0.25, "sampler": 0.75}}
    client.log_inputs(run.info.run_id, datasets=dataset_inputs(config))
    stored = client.get_run(run.info.run_id).inputs.dataset_inputs
    by_name = {each.dataset.name: each.dataset for each in stored}
    assert set(by_name) == {"CartPole-v1", "/".join(data.parts[-2:])}
    kept = by_name["/".join(data.parts[-2:])]
    assert kept.digest == find_source(data).digest()[:36]
    assert json.loads(kept.source) == {"uri": str(data)}
    assert json.loads(kept.profile)["share"] == 0.25


@pytest.mark.parametrize("input_", [None, "sampler", "/nothing/there", 3])
def test_what_cannot_be_read_is_left_out(input_: object) -> None:
    assert recorded_inputs({"input_": input_}) == []
