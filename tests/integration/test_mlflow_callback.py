"""A plain `tune.Tuner` in MLflow, by one callback: the runs of a spec's sweep, ended with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow_client import mlflow_client
from ray import tune
from small_runs import small
from sweep_dummy import Dummy

from analysis.results.mlflow_tags import PARENT_TAG
from experiments import MLflowCallback
from experiments.commands.results.tracking_ui import page_line, store_of
from experiments.tracking.store import connect
from trainables import PPO

pytestmark = pytest.mark.usefixtures("ray_here")

SCORE = "episode_return_mean"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)  # as Tune has it


def fit(
    tmp_path: Path,
    callback: MLflowCallback,
    space: dict[str, Any],
    name: str = "plain",
    **more: Any,
) -> tune.ResultGrid:
    config = tune.RunConfig(
        name=name,
        storage_path=str(tmp_path / "runs"),
        stop={"training_iteration": 2},
        callbacks=[callback],
        verbose=0,
    )
    options = tune.TuneConfig(metric=SCORE, mode="max")
    return tune.Tuner(
        more.get("trainable", Dummy), param_space=space, tune_config=options, run_config=config
    ).fit()


def runs_of(uri: str, experiment: str = "tunescape") -> tuple[list[Any], list[Any]]:
    """The parents and the children, the best first."""
    client = mlflow_client(uri)
    found = client.get_experiment_by_name(experiment)
    runs = client.search_runs([found.experiment_id], order_by=[f"metrics.{SCORE} DESC"])
    parents = [run for run in runs if PARENT_TAG not in run.data.tags]
    return parents, [run for run in runs if PARENT_TAG in run.data.tags]


def test_a_tuner_is_logged_as_a_sweep(tmp_path: Path) -> None:
    callback = MLflowCallback()
    fit(tmp_path, callback, {"lr": tune.grid_search([0.01, 0.02]), "gamma": 0.9})
    uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
    (parent,), children = runs_of(uri)
    assert (parent.info.run_name, parent.info.status) == ("plain", "FINISHED")
    assert parent.data.params["trainable"] == "Dummy"
    assert parent.data.metrics[f"best/{SCORE}"] == 2
    assert [run.info.status for run in children] == ["FINISHED"] * 2
    best = children[0]
    assert {"lr": "0.01", "gamma": "0.9"}.items() <= best.data.params.items()
    assert best.data.tags["tunescape.best"] == "true"
    assert parent.data.tags["tunescape.best_trial_id"] == best.data.tags["tunescape.trial_id"]
    assert {run.data.tags[PARENT_TAG] for run in children} == {parent.info.run_id}
    history = mlflow_client(uri).get_metric_history(best.info.run_id, SCORE)
    assert [(point.step, point.value) for point in history] == [(100, 1.0), (200, 2.0)]
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith(f"**2** is the highest `{SCORE}`") and "spec.yaml" not in note
    # … and shown as one.
    folder = tmp_path / "runs" / "plain"
    assert store_of(folder) == uri
    key = parent.data.tags["tunescape.sweep_id"]
    assert f"viewStateShareKey={key}" in page_line(folder, uri, "http://127.0.0.1:5000")
    tags = mlflow_client(uri).get_experiment(parent.info.experiment_id).tags
    columns = json.loads(tags[f"mlflow.sharedViewState.{key}"])["selectedColumns"]
    assert columns[:2] == [f"metrics.`{SCORE}`", "params.`lr`"] and "gamma" not in str(columns)

    fit(tmp_path, callback, {"lr": 0.03}, name="again")  # the same object in another Tuner
    parents, children = runs_of(uri)
    assert {run.info.run_name for run in parents} == {"plain", "again"} and len(children) == 3
    assert {run.info.status for run in parents} == {"FINISHED"}


def test_a_tuner_that_is_restored_continues_its_runs(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mine.db"
    flag = tmp_path / "fail"
    flag.touch()
    callback = MLflowCallback(uri, "mine", run_name="first", tags={"team": "a"}, mode="max")
    fit(tmp_path, callback, {"fail_file": str(flag), "lr": tune.grid_search([0.01, 0.02])})
    (parent,), children = runs_of(uri, "mine")
    assert [run.info.status for run in children] == ["FINISHED"] * 2  # it fails in the third
    assert parent.data.tags["team"] == "a" and parent.info.run_name == "first"
    failing = MLflowCallback(uri, "mine", run_name="second")
    space = {"fail_at": 1, "lr": 0.01}
    fit(tmp_path, failing, space, name="failing")
    second = next(run for run in runs_of(uri, "mine")[0] if run.info.run_name == "second")
    assert second.info.status == "FAILED"
    tuner = tune.Tuner.restore(
        str(tmp_path / "runs" / "failing"), trainable=Dummy, resume_errored=True
    )
    tuner.fit()
    parents, children = runs_of(uri, "mine")
    assert len(parents) == 2 and len(children) == 3  # no run is doubled


def test_the_policy_of_our_algorithms_is_kept(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
    connect(uri)
    fit(tmp_path, MLflowCallback(), {"env": "CartPole-v1", **small("PPO")}, trainable=PPO)
    (parent,), (child,) = runs_of(uri)
    assert parent.info.status == "FINISHED"
    assert (tmp_path / "runs" / "plain" / "best" / "policy.json").is_file()
    client = mlflow_client(uri)
    kept = {artifact.path for artifact in client.list_artifacts(parent.info.run_id)}
    assert "best_policy" in kept
    assert parent.data.tags["tunescape.model_uri"].startswith("models:/m-")
    assert child.data.tags["tunescape.best"] == "true"
    assert "[model](" in parent.data.tags["mlflow.note.content"]


def test_its_options_are_checked() -> None:
    with pytest.raises(ValueError, match='mode must be "max" or "min"'):
        MLflowCallback(mode="maximum")
