"""A node of a cluster dies in mid-sweep: its trials go on elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_ray import small_cluster
from sweep_dummy import NAME

from experiments.cluster.session import sweep_environment
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

REAL_WORKERS = True  # the test is of processes


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Of two nodes with a CPU each."""
    with sweep_environment(), small_cluster({"num_cpus": 1}, num_cpus=1) as nodes:
        yield nodes


@pytest.mark.full("integration/test_tuner.py::test_a_process_that_dies_doubles_no_rows")
def test_trials_of_a_node_that_died_go_on_elsewhere(cluster: Any, tmp_path: Path) -> None:
    (node,) = cluster.worker_nodes
    folder = tmp_path / "sweep"

    def kill() -> None:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            rows = [read_json_lines(file) for file in folder.glob("*/result.json")]
            if len(rows) == 2 and all(len(found) >= 2 for found in rows):
                break
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    spec = {
        "name": "sweep",
        "trainable": NAME,
        "storage": str(tmp_path),
        "config": {"seconds": 0.3},
        "search_space": {"lr": {"uniform": [0.1, 1]}},
        "stop": {"training_iteration": 12},
        "num_samples": 2,
        "checkpoint": {"frequency": 1},
        "mlflow": {"enabled": False},
    }
    outcome = run_sweep(Sweep.of(make_spec(spec)))
    thread.join()
    assert outcome.num_trials == 2 and not outcome.failures
    restored = 0
    for file in folder.glob("*/result.json"):
        rows = read_json_lines(file)
        assert {row["training_iteration"] for row in rows} == set(range(1, 13))
        restored += rows[-1]["iterations_since_restore"] < 12
    assert restored == 1  # the one on the node that is left was not disturbed
