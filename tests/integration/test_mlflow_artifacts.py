"""What a sweep leaves with its MLflow run: report, pictures, policy, and what its page says."""

from __future__ import annotations

import json
import re
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import logged_trials
import pytest
import yaml
from analysis_sweeps import add_checkpoint, make_sweep, row
from logged_trials import finish, trial_of
from mlflow_client import mlflow_client
from rich.console import Console

from analysis import load_sweep
from analysis.results.mlflow_tags import PARENT_TAG
from experiments.commands.report import make_report
from experiments.commands.results.sweep_artifacts import log_artifacts_of_sweep
from experiments.commands.results.tracking_ui import page_line
from experiments.errors import ExperimentError
from experiments.running.results import Outcome, write_page
from experiments.tracking.artifacts import result_files, sweep_note
from experiments.tracking.logger import MLflowLogger
from experiments.tracking.names import run_name
from experiments.tracking.store import connect

NOTE = "mlflow.note.content"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logged_trials.empty_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def folder(tmp_path: Path, empty_database: Path) -> Path:
    """A sweep of two trials with pictures, and a database beside it."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    trials = {
        "a": {"rows": [row(1, 5.0), row(2, 20.0)], "config": {"lr": 0.1}, "searched": {"lr": 0.1}},
        "b": {"rows": [row(1, 9.0)], "config": {"lr": 0.2}, "searched": {"lr": 0.2}},
    }
    sweep = make_sweep(tmp_path, trials)
    spec = {"name": "sweep", "trainable": "PPO", "config": {"env": "CartPole-v1"}}
    (sweep / "spec.yaml").write_text(yaml.safe_dump({**spec, "storage": str(tmp_path)}))
    for name in ("learning_curves.png", "final.json", "tuner.pkl", "pareto.csv"):
        (sweep / name).write_bytes(b"{}")
    return sweep


def _log(folder: Path, *, page: str = "") -> MLflowLogger:
    """Logs the trials as a sweep would."""
    place = str(folder.parent / "artifacts")
    uri = f"sqlite:///{folder.parent}/mlflow.db"
    logger = MLflowLogger(uri, "sweep", artifact_location=place, config={"env": "CartPole-v1"})
    logger.setup()
    for record in load_sweep(folder).trials:
        trial = trial_of(record.trial_id, record.path, env="CartPole-v1", **record.config)
        logger.on_trial_start(0, [trial], trial)
        finish(logger, trial)
    if page:
        (folder / "report.html").write_text(page)
    logger.log_results(load_sweep(folder))
    logger.close()
    return logger


def _parent(folder: Path) -> tuple[Any, Any]:
    client = mlflow_client(f"sqlite:///{folder.parent}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'tunescape'")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if PARENT_TAG not in run.data.tags]
    return client, parent


def _paths(client: Any, run: Any, place: str | None = None) -> set[str]:
    return {artifact.path for artifact in client.list_artifacts(run.info.run_id, place)}


def test_the_sweeps_run_gets_what_its_folder_holds_of_results(folder: Path) -> None:
    logger = _log(folder, page="<p>one</p>")
    client, parent = _parent(folder)
    assert parent.info.run_id == logger.parent_run_id
    assert _paths(client, parent) == {"report.html", "final.json", "pareto.csv", "plots"}
    assert _paths(client, parent, "plots") == {"plots/learning_curves.png"}
    note = parent.data.tags[NOTE]
    assert note.startswith("**20** is the highest `episode_return_mean`, of trial `a`.")
    run = f"#/experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}"
    assert f"[report.html]({run}/artifacts/report.html)" in note
    runs = f"#/experiments/{parent.info.experiment_id}/runs"
    key = parent.data.tags["tunescape.sweep_id"]
    assert f"[trials]({runs}?viewStateShareKey={key}&workflowType=machine_learning)" in note
    assert f"[curves]({runs}?viewStateShareKey={key}&" in note
    assert "2 trials: 2 finished." in note


def test_every_link_of_the_note_leads_to_something(folder: Path) -> None:
    _log(folder, page="<p>one</p>")
    client, parent = _parent(folder)
    linked = re.findall(
        r"\]\(#/experiments/(\d+)/runs/(\w+)/artifacts/(\S+)\)", parent.data.tags[NOTE]
    )
    assert {path for _, _, path in linked} == {
        *("report.html", "final.json", "pareto.csv", "plots/learning_curves.png")
    }  # no spec.yaml: this run has none
    for experiment, run, path in linked:
        assert (experiment, run) == (parent.info.experiment_id, parent.info.run_id)
        assert Path(client.download_artifacts(run, path, str(folder.parent))).is_file()


def test_the_page_of_the_sweep_has_columns_of_its_own(folder: Path) -> None:
    _log(folder)
    client, parent = _parent(folder)
    key = parent.data.tags["tunescape.sweep_id"]
    experiment = client.get_experiment(parent.info.experiment_id)
    state = json.loads(json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])["state"])
    assert state["selectedColumns"][:2] == ["metrics.`episode_return_mean`", "params.`lr`"]
    assert state["searchFilter"] == f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    trials = client.search_runs([experiment.experiment_id], state["searchFilter"])
    assert len(trials) == 2


@pytest.mark.parametrize("how", ["as it was logged", "of a sweep without a view"])
def test_ui_names_the_page_of_a_sweep(folder: Path, how: str) -> None:
    _log(folder)
    client, parent = _parent(folder)
    uri = f"sqlite:///{folder.parent}/mlflow.db"
    key = parent.data.tags["tunescape.sweep_id"]
    if how != "as it was logged":
        client.delete_experiment_tag(parent.info.experiment_id, f"mlflow.sharedViewState.{key}")
    line = page_line(folder, uri, "http://127.0.0.1:5000")
    runs = f"http://127.0.0.1:5000/#/experiments/{parent.info.experiment_id}/runs"
    assert line == f"The sweep sweep: {runs}?viewStateShareKey={key}&workflowType=machine_learning"
    assert f"mlflow.sharedViewState.{key}" in client.get_experiment(parent.info.experiment_id).tags
    latest = page_line(folder.parent, uri, "http://127.0.0.1:5000")
    assert latest == f"Runs of the latest sweeps: {runs}?workflowType=machine_learning"


def test_a_folder_that_mlflow_does_not_know_has_the_latest_page(folder: Path) -> None:
    uri = f"sqlite:///{folder.parent}/mlflow.db"
    assert page_line(folder, uri, "http://host").startswith(
        "Runs of the latest sweeps: http://host"
    )
    (folder.parent / "text.db").write_text("no database")
    assert page_line(folder, f"sqlite:///{folder.parent}/text.db", "http://host") == ""


def test_a_later_report_replaces_the_one_that_is_there(folder: Path) -> None:
    _log(folder, page="<p>one</p>")
    (folder / "report.html").write_text("<p>two</p>")
    (folder / "best").mkdir()
    (folder / "best" / "policy.json").write_text("{}")
    said = log_artifacts_of_sweep(folder)
    client, parent = _parent(folder)
    assert parent.info.run_id in said
    whole = {"report.html", "final.json", "pareto.csv", "plots", "best_policy"}
    assert _paths(client, parent) == whole
    page = client.download_artifacts(parent.info.run_id, "report.html", str(folder.parent))
    assert Path(page).read_text() == "<p>two</p>"
    log_artifacts_of_sweep(folder)
    assert _paths(client, parent) == whole


def test_a_sweep_without_a_run_is_told(folder: Path) -> None:
    with pytest.raises(ExperimentError, match="no MLflow experiment 'tunescape'"):
        log_artifacts_of_sweep(folder)
    connect(f"sqlite:///{folder.parent}/mlflow.db").create_experiment("tunescape")
    with pytest.raises(ExperimentError, match="has no run of the sweep"):
        log_artifacts_of_sweep(folder)
    spec = yaml.safe_load((folder / "spec.yaml").read_text())
    (folder / "spec.yaml").write_text(yaml.safe_dump({**spec, "mlflow": {"enabled": False}}))
    with pytest.raises(ExperimentError, match=r"mlflow\.enabled is false"):
        log_artifacts_of_sweep(folder)


def test_tunes_own_files_stay_in_the_folder(folder: Path) -> None:
    add_checkpoint(folder, "a", 1)
    assert {path.name for path in result_files(folder)} == {
        "learning_curves.png",
        "final.json",
        "pareto.csv",
    }


def test_the_description_says_who_won_and_what_failed(tmp_path: Path) -> None:
    config = {"lr": 0.1, "model": {"net": "a|b*c" * 9}}
    searched = {"lr": 0.1, "model/net": config["model"]["net"]}  # type: ignore[index]
    trials: dict[str, Any] = {
        str(n): {"rows": [row(1, float(n))], "config": config, "searched": searched}
        for n in range(1, 8)
    }
    trials["early"] = {"rows": [row(1, 0.0, pruned=True)]}
    trials["broken"] = {"rows": [row(1, None)], "status": "ERROR"}
    sweep = make_sweep(tmp_path, trials)
    error = "Traceback (most recent call last):\n  File\nValueError: bad `lr`\n"
    (sweep / "trial_broken" / "error.txt").write_text(error)
    note = sweep_note(load_sweep(sweep), "episode_return_mean", "min", commands=["tunescape x"])
    assert note.startswith("**0** is the lowest `episode_return_mean`, of trial `early`.")
    assert "9 trials: 7 finished, 1 stopped early, 1 failed." in note
    assert note.count("\n1. ") == 5  # the leaders, and no more
    assert "1. **1** `1` after 100 env steps: lr 0.1, model/net a\\|b\\*c" in note
    assert "- 1 failed: `ValueError: bad 'lr'`" in note
    assert note.endswith("```bash\ntunescape x\n```")


def test_the_description_of_a_sweep_that_reported_nothing(tmp_path: Path) -> None:
    trials = {"a": {"rows": [], "status": "ERROR"}}
    note = sweep_note(load_sweep(make_sweep(tmp_path, trials)), "score", "max")
    assert note.startswith("1 trial: 1 failed.")


def test_a_runs_name_is_its_trial_and_what_was_searched() -> None:
    expected: dict[str, dict[str, str]] = {
        "id lr=0.000312 gamma=0.99": {"lr": "0.00031234", "gamma": "0.99"},
        "id lr=0.1 seed=4": {"seed": "4", "lr": "0.1"},
        "id fcnet_activation=relu": {"model/fcnet_activation": "relu"},
        "id": {"hidden": json.dumps([256] * 9), "lr": "1"},
    }
    for name, params in expected.items():
        assert run_name("id", {"env": "Pong", **params}, {"env": "Pong"}) == name


def test_the_report_command_logs_what_it_wrote(folder: Path) -> None:
    _log(folder)
    _report(folder, log_to_mlflow=True)
    client, parent = _parent(folder)
    assert "report.html" in _paths(client, parent)
    assert "/artifacts/report.html)" in parent.data.tags[NOTE]
    with pytest.raises(ExperimentError, match="takes one sweep"):
        _report(folder, folder, log_to_mlflow=True)
    with pytest.raises(ExperimentError, match="leave --output"):
        _report(folder, out=folder.parent / "page.html", log_to_mlflow=True)


def _report(*folders: Path, out: Path | None = None, log_to_mlflow: bool) -> None:
    make_report(
        folders,
        out,
        metric=None,
        mode=None,
        title=None,
        figures=None,
        log_to_mlflow=log_to_mlflow,
        console=Console(quiet=True),
    )


def test_a_report_that_fails_is_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no fonts")

    results: Any = folder
    outcome = Outcome(results, folder, False)
    page = write_page(outcome)
    assert page is not None and page.name == "report.html" and page.stat().st_size > 1000
    monkeypatch.setattr("analysis.report.write_report", broken)
    assert write_page(outcome) is None
    assert "No report was written (RuntimeError: no fonts)" in caplog.text


@pytest.mark.full(
    "integration/test_mlflow_logger.py::test_a_dead_server_delays_nothing_and_is_named_once"
)
def test_a_server_that_is_gone_delays_the_end_by_seconds(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logger = MLflowLogger(f"http://127.0.0.1:{port}", "sweep")
    logger.setup()
    logger.log_results(load_sweep(folder))
    begin = time.monotonic()
    logger.close()
    assert time.monotonic() - begin < 30
    spec = yaml.safe_load((folder / "spec.yaml").read_text())
    spec["mlflow"] = {"tracking_uri": f"http://127.0.0.1:{port}"}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    with pytest.raises(ExperimentError, match=str(port)):
        log_artifacts_of_sweep(folder)
