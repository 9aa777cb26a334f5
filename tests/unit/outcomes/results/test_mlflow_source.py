"""A sweep that our logger wrote to MLflow reads back as it reads from its folder."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from analysis_sweeps import make_sweep, row

from analysis import (
    ResultsError,
    cost_frame,
    curves_frame,
    load_sweep,
    load_sweeps,
    trials_frame,
    write_report,
)
from analysis.results import mlflow_history as history
from analysis.results.mlflow import load_mlflow_sweep
from experiments.tracking.logger import MLflowLogger

Trials = dict[str, dict[str, Any]]

A = {"env": "CartPole-v1", "lr": 0.1, "epochs": 4, "model": {"act": "tanh", "hiddens": [64, 64]}}
B = {**A, "lr": 3e-5, "model": {"act": "relu", "hiddens": [64, 64]}, "clip": None, "norm": True}
MUTATED = {**A, "lr": 0.2, "epochs": 8, "model": {**A["model"], "act": "relu"}}  # type: ignore[dict-item]


def rows_of(trial: str, configs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a second, with a metric that only every other one has, and Tune's own keys.

    Trials `t0` and `t1` share processes.
    """
    host = {"host": int(trial[1])} if trial in ("t0", "t1") else {}
    return [
        {
            **row(i, 10.0 * i + len(trial), config=config, timestamp=1_767_225_600 + i, pid=7),
            **{"num_cpus": 2.0, "num_gpus": 0.0, **host},
            **({"learner/default_policy/loss": 1 / i} if i % 2 else {}),
        }
        for i, config in enumerate(configs, start=1)
    ]


SWEEP: Trials = {
    "t0": {"rows": rows_of("t0", [A] * 3), "config": A, "tag": "1_a"},
    "t1": {"rows": rows_of("t1", [A, A, MUTATED, MUTATED]), "config": A, "tag": "2_b"},
    "bad": {"rows": rows_of("bad", [B]), "config": B, "status": "ERROR", "tag": "3_c"},
    "none": {"rows": [], "config": B, "status": "ERROR", "tag": "4_d"},
}
SEARCHED = {"lr": 0.1, "model/act": "tanh"}


def log(uri: str, folder: Path, trials: Trials, name: str = "sweep", **options: Any) -> str:
    """Writes the trials to MLflow as Tune would have them written; the id of the sweep's run."""
    space = {"search_space": {name.replace("/", "."): {} for name in SEARCHED}}
    location = (folder.parent / "artifacts").as_uri()
    logger = MLflowLogger(
        uri, name, params={"trainable": "PPO", **space}, artifact_location=location, **options
    )
    logger.setup()
    for number, (trial_id, given) in enumerate(trials.items(), start=1):
        trial: Any = SimpleNamespace(
            trial_id=trial_id,
            config=given["config"],
            status="RUNNING",
            last_result=None,
            stopping_criterion={},
            storage=SimpleNamespace(trial_fs_path=str(folder / f"{number:04d}_{trial_id}")),
            latest_checkpoint_result=None,
            error_file=None,
        )
        logger.on_trial_start(0, [], trial)
        for result in given["rows"]:
            trial.last_result, trial.config = result, result["config"]
            logger.on_trial_result(0, [], trial, result)
        trial.status = given.get("status", "TERMINATED")
        end = logger.on_trial_error if trial.status == "ERROR" else logger.on_trial_complete
        end(0, [], trial)
    logger.close()
    assert logger.parent_run_id is not None
    return logger.parent_run_id


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    root = tmp_path_factory.mktemp("stored")
    trials = {key: {**given, "searched": SEARCHED} for key, given in SWEEP.items()}
    folder = make_sweep(root, trials)
    uri = f"sqlite:///{root / 'mlflow.db'}"
    return SimpleNamespace(folder=folder, uri=uri, run_id=log(uri, folder, trials), root=root)


@pytest.fixture(autouse=True)
def _store(stored: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", stored.uri)
    yield


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal but for what MLflow does not hold: flags, texts, and Tune's book-keeping."""
    missing = {"done", "pid"}
    assert set(expected) - set(found) == missing & set(expected)
    assert not set(found) - set(expected)
    expected = expected.drop(columns=missing, errors="ignore")
    pd.testing.assert_frame_equal(
        found[list(expected)], expected, check_dtype=False, atol=0, rtol=0
    )


def test_frames_are_those_of_the_folder(stored: SimpleNamespace) -> None:
    source = "mlflow:tunescape/sweep"
    trials, expected = trials_frame(source), trials_frame(stored.folder)
    assert_same(trials, expected)
    assert trials.attrs["varying"] == expected.attrs["varying"]
    assert trials["host"].dropna().to_dict() == {0: 0, 1: 1}
    assert_same(curves_frame(source), curves_frame(stored.folder))
    cost = cost_frame(source)
    assert cost["cpu_s"].tolist() == [3.0, 4.0, 1.0, 0.0]
    pd.testing.assert_frame_equal(cost, cost_frame(stored.folder), check_exact=True)


def test_settings_keep_their_types_and_their_changes(stored: SimpleNamespace) -> None:
    found, expected = load_sweep("mlflow:sweep"), load_sweep(stored.folder)
    assert [t.config for t in found.trials] == [t.config for t in expected.trials]
    assert [t.row_configs for t in found.trials] == [t.row_configs for t in expected.trials]
    assert isinstance(found.trials[1].config["epochs"], int)
    assert load_sweep(Path("mlflow:tunescape/sweep")).name == "sweep"  # as a command line has it
    assert [t.searched for t in found.trials] == [("lr", "model/act")] * 4


@pytest.mark.parametrize("how", ["run id", "name", "experiment and name"])
def test_a_sweep_is_found_by(how: str, stored: SimpleNamespace) -> None:
    name = {"run id": stored.run_id, "name": "sweep"}.get(how, "tunescape/sweep")
    sweep = load_mlflow_sweep(name, tracking_uri=stored.uri)
    assert (sweep.name, str(sweep.path)) == ("sweep", "mlflow:tunescape/sweep")


def test_the_newest_of_a_name_is_taken_and_names_may_have_slashes(stored: SimpleNamespace) -> None:
    trials = {"young": {"rows": rows_of("young", [A]), "config": A}}
    log(stored.uri, stored.folder, trials, "study/a", experiment_name="team/x")
    log(stored.uri, stored.folder, {**trials, "other": trials["young"]}, "study/a")
    assert len(load_sweep("mlflow:study/a").trials) == 2
    assert len(load_sweep("mlflow:team/x/study/a").trials) == 1
    both = load_sweeps(["mlflow:team/x/study/a", "mlflow:tunescape/study/a", stored.folder])
    assert [s.name for s in both] == ["x/study/a", "mlflow:tunescape/study/a", "sweep"]


def test_what_is_not_there_is_named(stored: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no sweep 'swep'; there are e.g. .*tunescape/sweep"):
        load_mlflow_sweep("swep")
    with pytest.raises(ResultsError, match="no such database"):
        load_mlflow_sweep("sweep", tracking_uri=f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()


def test_a_store_that_cannot_be_read_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, " * 100)
    for uri in (f"sqlite:///{tmp_path / 'text.db'}", f"{tmp_path / 'text.db'}", "gopher://x/y"):
        with pytest.raises(ResultsError, match="MLflow cannot be read: ") as said:
            load_mlflow_sweep("sweep", tracking_uri=uri)
        assert "\n" not in str(said.value)


def test_a_server_that_does_not_answer_is_given_up_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://ada:pa55@127.0.0.1:{unused.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(ResultsError, match="cannot be reached") as said:
            load_mlflow_sweep("sweep", tracking_uri=uri)
    assert time.monotonic() - start < 30 and "pa55" not in str(said.value)


def test_a_report_of_it_goes_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_report("mlflow:tunescape/sweep") == tmp_path / "report.html"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_of_many_runs_each_metric_is_asked_for_once_and_cut_answers_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {f"r{n}": [float(n), float(n + 1)] for n in range(5)}
    asked: list[list[str]] = []

    def request(_: Any, run_ids: list[str], name: str) -> Any:
        asked.append(list(run_ids))
        found = [
            {"run_id": r, "key": name, "value": v, "timestamp": 1, "step": s}
            for r in run_ids
            for s, v in enumerate(held[r])
        ]
        return SimpleNamespace(json=lambda: {"metrics": found[: history._POINTS_A_REQUEST]})

    single = SimpleNamespace(
        _tracking_client=SimpleNamespace(store=None),
        get_metric_history=lambda r, n: [
            SimpleNamespace(key=n, value=v, timestamp=1, step=s) for s, v in enumerate(held[r])
        ],
    )
    monkeypatch.setattr(history, "_request", request)
    metrics = {run_id: ["a"] for run_id in held}
    whole = dict(history._from_server(single, metrics))
    assert asked == [list(held)]
    for limit in (5, 2):  # of two values a run: two runs at a time, then not even one
        monkeypatch.setattr(history, "_POINTS_A_REQUEST", limit)
        assert dict(history._from_server(single, metrics)) == whole
    assert {r: [p.value for p in points] for r, points in whole.items()} == held
