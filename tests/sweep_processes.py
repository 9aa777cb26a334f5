"""A sweep in a process of its own, as its user starts it, and what it left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from forked_drivers import Driver
from mlflow_client import mlflow_client

from experiments.trial_info import read_json_lines

FIVE = {"search_space": {"lr": {"grid": [0.01, 0.02, 0.03, 0.04, 0.05]}}}
"""Trials, of a spec of `spec_file`."""


def start(tmp_path: Path, *arguments: str) -> Driver:
    """A command of tunescape, in a process group of its own."""
    return Driver(*arguments, cwd=tmp_path, real_workers=True)


def spec_file(tmp_path: Path, **keys: Any) -> str:
    """A spec of three trials of eight iterations, two at a time."""
    spec = {
        "name": "sweep",
        "trainable": "sweep_dummy:Dummy",
        "config": {"seconds": 0.2},
        "search_space": {"lr": {"grid": [0.01, 0.02, 0.03]}},
        "stop": {"training_iteration": 8},
        "checkpoint": {"frequency": 2},
        "resources": {"num_cpus": 2},
        **keys,
    }
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    return "spec.yaml"


def wait_until(found: Callable[[], Any], process: Driver) -> None:
    """Wait for something that a process does."""
    deadline = time.monotonic() + 240
    while not found():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows(sweep: Path) -> dict[str, list[int]]:
    """The iterations of each trial, as they are on disk."""
    return {
        path.parent.name: [row["training_iteration"] for row in read_json_lines(path)]
        for path in sorted(sweep.glob("*/result.json"))
    }


def ended(sweep: Path) -> dict[str, list[int]]:
    """The iterations of the trials of `spec_file` that have all of them."""
    return {trial: its for trial, its in rows(sweep).items() if 8 in its}


def wait_for_trials(count: int, sweep: Path, process: Driver) -> None:
    """Wait until so many trials have ended, and this process itself has trained."""
    before = rows(sweep)
    wait_until(lambda: len(ended(sweep)) >= count and rows(sweep) != before, process)


def statuses(runs: Path) -> list[str]:
    """Of all runs in MLflow, parents first."""
    return [run.info.status for run in _tracked(runs)]


def statuses_by_folder(runs: Path) -> dict[str, list[str]]:
    """Of the trials' runs in MLflow, by the name of the trial's folder."""
    found: dict[str, list[str]] = {}
    for run in _tracked(runs):
        if "mlflow.parentRunId" in run.data.tags:
            folder = Path(run.data.tags["tunescape.trial_dir"]).name
            found.setdefault(folder, []).append(run.info.status)
    return found


def _tracked(runs: Path) -> list[Any]:
    client = mlflow_client(f"sqlite:///{runs}/mlflow.db")
    experiment: Any = client.get_experiment_by_name("tunescape")
    found = list(client.search_runs([experiment.experiment_id]))
    return sorted(found, key=lambda run: "mlflow.parentRunId" in run.data.tags)


def finish(tmp_path: Path, folder: str, *options: str) -> str:
    """Resume a sweep to its end; what the command said."""
    process = start(tmp_path, "resume", folder, *options)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output
