"""In MLflow a tag says which trials shared a process, and no metric does."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from analysis_sweeps import make_sweep, row
from mlflow_client import mlflow_client

from analysis.results.load import load_sweep
from analysis.results.mlflow_tags import (
    HOST_TAG,
    NAME_TAG,
    NUM_HOSTS_TAG,
    NUM_PLACES_TAG,
    TRIAL_TAG,
)
from experiments.tracking.artifacts import sweep_note
from experiments.tracking.logger import MLflowLogger
from experiments.tracking.names import hosting_tags

STEPS = "num_env_steps_sampled_lifetime"


def trial(name: str) -> Any:
    return SimpleNamespace(
        trial_id=name,
        config={"lr": 0.1},
        status="RUNNING",
        last_result=None,
        stopping_criterion={},
        storage=SimpleNamespace(trial_fs_path=f"/runs/sweep/{name}"),
        latest_checkpoint_result=None,
        error_file=None,
        is_finished=lambda: False,
    )


def report(logger: MLflowLogger, trial: Any, iteration: int, **more: Any) -> None:
    result = {"score": 1.0, STEPS: 10 * iteration, "training_iteration": iteration, **more}
    logger.on_trial_result(0, [trial], trial, result)


def runs_of(uri: str, name: str) -> dict[str, Any]:
    """The runs of a sweep by their trial's id, its own by an empty one."""
    client = mlflow_client(uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(ids, f"tags.`{NAME_TAG}` = '{name}'")
    return {run.data.tags.get(TRIAL_TAG, ""): run for run in runs}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database for all tests here: making one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


def begun(uri: str, name: str, tmp_path: Path) -> MLflowLogger:
    place = (tmp_path / "artifacts").as_uri()
    return MLflowLogger(uri, name, artifact_location=place, metric="score")


def test_a_trials_tag_follows_it_and_is_no_metric(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = begun(uri, "moved", tmp_path)
    written: list[dict[str, str]] = []
    logger.setup()
    assert logger._writer is not None
    submit = logger._writer.submit_tags
    monkeypatch.setattr(
        logger._writer, "submit_tags", lambda run, tags: (written.append(tags), submit(run, tags))
    )
    stays, moves, alone = (trial(name) for name in ("stays", "moves", "alone"))
    for one in (stays, moves, alone):
        logger.on_trial_start(0, [], one)
    for iteration, host in ((1, 0), (2, 0), (3, 1)):  # after 2 its process died
        report(logger, stays, iteration, host=1)
        report(logger, moves, iteration, host=host)
        report(logger, alone, iteration)
    assert written == [{HOST_TAG: "1"}, {HOST_TAG: "0"}, {HOST_TAG: "1"}]  # not at each result
    logger.close()
    runs = runs_of(uri, "moved")
    assert (runs["stays"].data.tags[HOST_TAG], runs["moves"].data.tags[HOST_TAG]) == ("1", "1")
    assert HOST_TAG not in runs["alone"].data.tags and HOST_TAG not in runs[""].data.tags
    assert {*runs["moves"].data.metrics} == {*runs["alone"].data.metrics}
    assert not {"host", "config/host"} & {*runs["moves"].data.metrics, *runs["moves"].data.params}
    assert not {NUM_HOSTS_TAG, NUM_PLACES_TAG} & {*runs[""].data.tags}


def test_the_sweeps_run_says_how_many_processes_and_places_there_are(
    uri: str, tmp_path: Path
) -> None:
    logger = begun(uri, "resumed", tmp_path)
    saved = pickle.dumps(logger)  # as Tune does before the sweep starts
    logger.tag_sweep(hosting_tags(2, 24))
    logger.setup()
    one = trial("a")
    logger.on_trial_start(0, [one], one)
    logger.close("KILLED")
    tags = runs_of(uri, "resumed")[""].data.tags
    assert (tags["tunescape.num_hosts"], tags["tunescape.num_places"]) == ("2", "24")
    assert not {NUM_HOSTS_TAG, NUM_PLACES_TAG} & {*runs_of(uri, "resumed")["a"].data.tags}

    resumed = pickle.loads(saved)  # on a larger machine
    resumed.tag_sweep(hosting_tags(8, 24))
    resumed.setup()
    resumed.close()
    runs = runs_of(uri, "resumed")
    assert {*runs} == {"", "a"}
    assert runs[""].data.tags[NUM_HOSTS_TAG] == "8" and runs[""].info.status == "FINISHED"


def test_the_description_says_in_how_many_processes(tmp_path: Path) -> None:
    trials = {n: {"rows": [row(1, 1.0, host=h)]} for n, h in (("a", 0), ("b", 1), ("c", 0))}
    note = sweep_note(load_sweep(make_sweep(tmp_path, trials)), "episode_return_mean", "max")
    assert "3 trials in 2 processes: 3 finished." in note
    alone = make_sweep(tmp_path, {"a": {"rows": [row(1, 1.0)]}}, "alone")
    assert "1 trial: 1 finished." in sweep_note(load_sweep(alone), "episode_return_mean", "max")
