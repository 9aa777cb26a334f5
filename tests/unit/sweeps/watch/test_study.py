"""A sweep's trials as an Optuna study, whatever made them, and the dashboard's server."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from analysis_sweeps import row
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState
from typer.testing import CliRunner
from watched_folders import Folder

from experiments import cli
from experiments.errors import ExperimentError
from experiments.watch import optuna_server
from experiments.watch.study import OUTSIDE, study_of
from experiments.watch.watched_sweep import WatchedSweep
from search_spaces.space import SearchSpace

SPACE = {
    "lr": {"uniform": [0.0, 1.0]},
    "gamma": {"loguniform": [0.001, 0.5], "transform": "one_minus"},
    "act": {"grid": ["tanh", "relu"]},
}
CONFIG = {"lr": 0.25, "gamma": 0.9, "act": "relu"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "sweep", search_space=SPACE)


def study(folder: Folder) -> Any:
    sweep = WatchedSweep(folder.path)
    sweep.look()
    return study_of(sweep, SearchSpace.parse(SPACE))


def test_states_values_and_searched_settings(folder: Folder) -> None:
    folder.add("done", rows=[row(1, 1.0), row(2, 3.0, done=True)], config=CONFIG)
    folder.add("pruned", rows=[row(1, 2.0, done=True, pruned=True)], config=CONFIG)
    folder.add("failed", "ERROR", rows=[row(1, 2.0)], config=CONFIG)
    folder.add("nothing", rows=[row(1, float("nan"), done=True)], config=CONFIG)
    folder.add("runs", rows=[row(1, 9.0)], config=CONFIG)
    changed = [row(1, 1.0), row(2, 2.0, config={**CONFIG, "lr": 7.0})]
    folder.add("population", rows=changed, config=CONFIG)
    folder.add("outside", rows=[row(1, 1.0)], config={**CONFIG, "act": "gelu"})
    with folder.running():
        found = study(folder)
    trials = {trial.user_attrs["trial_id"]: trial for trial in found.get_trials()}
    assert {name: trial.state for name, trial in trials.items()} == {
        "done": TrialState.COMPLETE,
        "pruned": TrialState.PRUNED,
        "failed": TrialState.FAIL,
        "nothing": TrialState.FAIL,
        **dict.fromkeys(("runs", "population", "outside"), TrialState.RUNNING),
    }
    assert trials["done"].value == 3.0 and found.best_trial.number == 0
    assert trials["done"].intermediate_values == {100: 1.0, 200: 3.0}
    assert trials["done"].params == {
        "lr": 0.25,
        "one_minus_gamma": pytest.approx(0.1),
        "act": "relu",
    }
    assert trials["done"].distributions == {
        "lr": FloatDistribution(0.0, 1.0),
        "one_minus_gamma": FloatDistribution(0.001, 0.5, log=True),
        "act": CategoricalDistribution(("tanh", "relu")),
    }
    assert trials["population"].params == trials["done"].params
    assert trials["outside"].params == {} and trials["outside"].user_attrs[OUTSIDE] == "act"
    folder.killed()
    assert study(folder).get_trials()[4].state == TrialState.FAIL


def test_several_objectives(folder: Folder) -> None:
    objectives = [{"metric": "episode_return_mean"}, {"metric": "time_total_s", "mode": "min"}]
    path = Folder(folder.path.with_name("two"), objectives=objectives)
    path.add("a", rows=[row(1, 1.0), row(2, 3.0, done=True)], config=CONFIG)
    path.add("b", rows=[row(1, 2.0, done=True, pruned=True)], config=CONFIG)
    found = study(path)
    assert [direction.name for direction in found.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert [trial.values for trial in found.get_trials()] == [[3.0, 1.0], None]
    assert [trial.state.name for trial in found.get_trials()] == ["COMPLETE", "FAIL"]


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """In the place of Optuna's dashboard, one that says how many trials it is shown."""
    storages: list[Any] = []

    def wsgi(storage: Any) -> Any:
        storages.append(storage)

        def app(environ: dict[str, Any], start: Any) -> list[bytes]:
            start("200 OK", [("Content-Type", "text/plain")])
            return [str(len(storage.get_all_trials(0))).encode()]

        return app

    module = ModuleType("optuna_dashboard")
    module.wsgi = wsgi  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "optuna_dashboard", module)
    monkeypatch.setattr(optuna_server, "INTERVAL_S", 0.02)
    return storages


def test_the_dashboard_follows_the_sweep(folder: Folder, dashboard: list[Any]) -> None:
    folder.add("a", rows=[row(1, 1.0)], config=CONFIG)
    with folder.running():
        server = optuna_server.study_server(folder.path, 0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(ExperimentError, match="cannot be used: Address already in use"):
            optuna_server.study_server(folder.path, server.server_port)
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(address, headers={"Host": "evil.example"}), timeout=30)
        folder.report("a", 2, 4.0, done=True)
        folder.add("b", rows=[row(1, 1.0)], config=CONFIG)
        deadline = time.monotonic() + 60
        while urlopen(address, timeout=30).read() != b"2":
            assert time.monotonic() < deadline
        server.shutdown()
        server.close()
        thread.join()
    first, second = dashboard[0].get_all_trials(0)
    assert first.state == TrialState.COMPLETE and first.value == 4.0
    assert first.intermediate_values == {100: 1.0, 200: 4.0}
    assert second.state == TrialState.RUNNING


def test_without_the_extra_the_error_says_what_to_install(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    with pytest.raises(ExperimentError, match=r"pip install 'tunescape\[dashboard\]'$"):
        optuna_server.study_server(folder.path, 0)
    result = CliRunner().invoke(cli.app, ["dashboard", str(folder.path)])
    assert isinstance(result.exception, ExperimentError)


def test_optunas_own_dashboard(folder: Folder) -> None:
    pytest.importorskip("optuna_dashboard")
    folder.add("a", rows=[row(1, 1.0), row(2, 4.0, done=True)], config=CONFIG)
    server = optuna_server.study_server(folder.path, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    page = urlopen(f"{address}{optuna_server.STUDY_PAGE}", timeout=30).read().decode()
    found: dict[str, Any] = {}
    deadline = time.monotonic() + 60
    while not found.get("trials"):
        assert time.monotonic() < deadline
        found = json.load(urlopen(f"{address}/api/studies/0", timeout=30))
    server.shutdown()
    server.close()
    thread.join()
    assert "<title>Optuna Dashboard" in page and found["name"] == "sweep"
    assert [trial["state"] for trial in found["trials"]] == ["Complete"]
    assert found["objective_names"] == ["episode_return_mean"]
