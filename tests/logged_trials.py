"""Trials as MLflow's logger sees them, without a sweep, and the runs that come of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlflow_client import mlflow_client

from analysis.results.mlflow_tags import PARENT_TAG
from experiments.tracking.logger import MLflowLogger
from experiments.tracking.store import connect

STEPS = "num_env_steps_sampled_lifetime"


def empty_database(folder: Path) -> Path:
    """A database with its tables made, to copy: making them takes a second."""
    path = folder / "mlflow.db"
    connect(f"sqlite:///{path}").search_experiments()
    return path


def trial_of(trial_id: str, folder: Path | str | None = None, **config: Any) -> Any:
    """A trial that has just started."""
    trial = SimpleNamespace(
        trial_id=trial_id,
        config=config,
        status="RUNNING",
        last_result=None,
        stopping_criterion={"training_iteration": 3},
        storage=SimpleNamespace(trial_fs_path=str(folder or f"/runs/sweep/{trial_id}")),
        latest_checkpoint_result=None,
        error_file=None,
    )
    trial.is_finished = lambda: trial.status in ("TERMINATED", "ERROR")
    return trial


def report(logger: MLflowLogger, trial: Any, iteration: int, **metrics: Any) -> None:
    """Log a result of 100 environment steps more."""
    trial.last_result = {
        "score": float(iteration),
        STEPS: 100 * iteration,
        "training_iteration": iteration,
        "timestamp": 1_700_000_000 + iteration,
        **metrics,
    }
    logger.on_trial_result(0, [trial], trial, trial.last_result)


def finish(logger: MLflowLogger, trial: Any) -> None:
    """Log that the trial has ended."""
    trial.status = "TERMINATED"
    logger.on_trial_complete(0, [trial], trial)


def runs_of(uri: str, sweep_id: str | None = None) -> tuple[Any, dict[str, Any]]:
    """The parent, and the children by trial id, of the one sweep that there is, or of a certain."""
    client = mlflow_client(uri)
    experiment: Any = client.get_experiment_by_name("tunescape")
    query = f"tags.`tunescape.sweep_id` = '{sweep_id}'" if sweep_id else ""
    runs = client.search_runs([experiment.experiment_id], filter_string=query)
    (parent,) = [run for run in runs if PARENT_TAG not in run.data.tags]
    children = [run for run in runs if PARENT_TAG in run.data.tags]
    assert {run.data.tags[PARENT_TAG] for run in children} <= {parent.info.run_id}
    by_trial = {run.data.tags["tunescape.trial_id"]: run for run in children}
    assert len(by_trial) == len(children)
    return parent, by_trial
