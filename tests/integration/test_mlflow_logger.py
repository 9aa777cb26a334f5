"""Sweeps in MLflow: what is logged, that a resumed sweep continues its runs, and that nothing that
MLflow does can hold up or end a sweep."""

from __future__ import annotations

import json
import logging
import math
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import logged_trials
import pytest
from logged_trials import STEPS, finish, report, runs_of, trial_of
from mlflow_client import mlflow_client
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from tiers import rarely

from experiments.durability.keeper import durable
from experiments.tracking import writer as mlflow_writer
from experiments.tracking.logger import MLflowLogger
from experiments.tracking.names import BEST_ARTIFACT
from experiments.tracking.store import (
    LONG_PARAMS_ARTIFACT,
    MAX_BATCH_METRICS,
    Row,
    connect,
    is_connection_error,
    log_batch,
)
from experiments.tracking.writer import MLflowWriter


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logged_trials.empty_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def uri(tmp_path: Path, empty_database: Path) -> str:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    original = MLflowWriter.__init__

    def init(self: MLflowWriter, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{"flush_interval_s": 0.01, **kwargs})

    monkeypatch.setattr(MLflowWriter, "__init__", init)


def _logger(uri: str, tmp_path: Path, **options: Any) -> MLflowLogger:
    return MLflowLogger(
        uri, "sweep", artifact_location=str(tmp_path / "artifacts"), metric="score", **options
    )


def _history(uri: str, run: Any, metric: str) -> list[tuple[int, float]]:
    points = mlflow_client(uri).get_metric_history(run.info.run_id, metric)
    return sorted((point.step, point.value) for point in points)


class Scoring(tune.Trainable):
    """Reports `x` times its iteration, and fails if told to."""

    def setup(self, config: dict[str, Any]) -> None:
        self.config = config

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.config = new_config
        return True

    def step(self) -> dict[str, Any]:
        if self.config["x"] == 13:
            raise ValueError("an unlucky number")
        return {
            "score": self.config["x"] * (self.iteration + 1),
            STEPS: 100 * (self.iteration + 1),
            "learner": {"loss": 0.5},
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "x.json").write_text("1")

    def load_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]
        pass


@pytest.mark.usefixtures("ray_here")
def test_a_sweep_in_mlflow(uri: str, tmp_path: Path) -> None:
    import ray
    from ray import cloudpickle

    # The workers cannot import this module, so they get the trainable itself.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: sweep\n")
    logger = _logger(
        uri,
        tmp_path,
        spec_path=str(spec),
        tags={"team": "a", "tunescape.spec": "mine"},
        params={"stop": {"iteration": 4}},
    )
    scheduler, keeper = durable(
        ASHAScheduler(metric="score", mode="max", max_t=4, grace_period=1, reduction_factor=2)
    )
    grid = tune.Tuner(
        Scoring,
        param_space={"x": tune.grid_search([5, 1, 13]), "seed": 7, "model": {"width": 64}},
        tune_config=tune.TuneConfig(
            scheduler=scheduler, reuse_actors=True, max_concurrent_trials=1
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(tmp_path),
            callbacks=[keeper, logger],
            stop={"training_iteration": 4},
            verbose=0,
        ),
    ).fit()
    best = grid.get_best_result("score", "max").metrics["trial_id"]
    policy = tmp_path / "best"
    policy.mkdir()
    (policy / "policy.json").write_text("{}")
    logger.log_best(best, str(policy), checkpoint="/runs/sweep/t/checkpoint_000000")
    logger.close("FINISHED")

    parent, children = runs_of(uri)
    assert parent.info.run_id == logger.parent_run_id
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "sweep"
    assert parent.data.params == {"stop/iteration": "4"}
    assert parent.data.tags["team"] == "a"
    assert parent.data.tags["tunescape.spec"] == "mine"  # the given tags win
    assert parent.data.tags["tunescape.version.ray"] == ray.__version__
    assert parent.data.tags["tunescape.best_trial_id"] == best
    assert parent.data.tags["tunescape.best_checkpoint"] == "/runs/sweep/t/checkpoint_000000"
    assert parent.data.metrics["best/score"] == 20
    client = mlflow_client(uri)
    assert {f.path for f in client.list_artifacts(parent.info.run_id)} == {
        "spec.yaml",
        BEST_ARTIFACT,
    }
    kept = client.list_artifacts(parent.info.run_id, BEST_ARTIFACT)
    assert [f.path for f in kept] == [f"{BEST_ARTIFACT}/policy.json"]

    by_x = {run.data.params["x"]: run for run in children.values()}
    assert set(by_x) == {"5", "1", "13"}
    ends = {
        x: (run.info.status, run.data.tags["tunescape.outcome"], run.data.tags["tunescape.status"])
        for x, run in by_x.items()
    }
    assert ends == {
        "5": ("FINISHED", "finished", "TERMINATED"),
        "1": ("FINISHED", "pruned", "TERMINATED"),
        "13": ("FAILED", "failed", "ERROR"),
    }
    assert "ValueError: an unlucky number" in by_x["13"].data.tags["tunescape.error"]
    winner = by_x["5"]
    assert winner.data.params == {"x": "5", "seed": "7", "model/width": "64"}
    assert winner.data.tags["tunescape.seed"] == "7"
    assert winner.data.tags["tunescape.best"] == "true"
    assert _history(uri, winner, "score") == [(100, 5), (200, 10), (300, 15), (400, 20)]
    assert _history(uri, winner, "learner/loss")[0] == (100, 0.5)
    unwanted = {"pid", "timestamp", "done", "pruned", "iterations_since_restore"}
    assert not unwanted & set(winner.data.metrics)
    assert not any(key.startswith("config") for key in winner.data.metrics)


def test_the_objective_is_logged_first(uri: str, tmp_path: Path) -> None:
    """MLflow's pages of comparison open on the first metric that a run was given."""
    logger, trial = _logger(uri, tmp_path), trial_of("a", lr=0.1)
    logger.setup()
    logger.on_trial_start(0, [trial], trial)
    result = {"learner/loss": 0.5, "a": 1.0, "score": 2.0, "training_iteration": 1, STEPS: 100}
    logger.on_trial_result(0, [trial], trial, result)
    finish(logger, trial)
    logger.close()
    assert next(iter(runs_of(uri)[1]["a"].data.metrics)) == "score"


def test_a_resumed_sweep_continues_its_runs(uri: str, tmp_path: Path) -> None:
    """The driver is killed: Tune's snapshot is older than what MLflow already holds."""
    first = _logger(uri, tmp_path)
    tuner_pkl = pickle.dumps(first)  # as Tune does before the sweep starts
    first.setup()
    ended, cut_off, lost, unsent = (trial_of(name, lr=0.1) for name in "abcd")
    for trial in (ended, cut_off, lost):
        first.on_trial_start(0, [], trial)
        report(first, trial, 1)
        report(first, trial, 2)
    report(first, ended, 3)
    finish(first, ended)
    first._writer.close()  # type: ignore[union-attr]  # all sent, then SIGKILL: no ends written

    second = pickle.loads(tuner_pkl)
    second.setup()  # no state: killed before Tune's first snapshot
    unsent.status = "TERMINATED"  # it had ended, but MLflow never heard of it
    unsent.last_result = {"score": 9.0, STEPS: 300, "training_iteration": 3, "timestamp": 3}
    unsent.storage.trial_fs_path = str(tmp_path)
    rows = [
        {"score": 5.0 * i, STEPS: 100 * i, "training_iteration": i, "timestamp": i} for i in (1, 2)
    ]
    (tmp_path / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"cut')
    second.on_step_begin(0, [ended, cut_off, unsent])
    second.on_trial_start(0, [], cut_off)
    for iteration in (2, 3):  # from its checkpoint at 1, so 2 is a repetition
        report(second, cut_off, iteration, timestamp=1_800_000_000)
    finish(second, cut_off)
    second.close()

    parent, children = runs_of(uri)
    assert parent.info.run_id == first.parent_run_id == second.parent_run_id
    assert parent.info.status == "FINISHED"
    assert set(children) == set("abcd")
    ends = {name: run.info.status for name, run in children.items()}
    assert ends == {"a": "FINISHED", "b": "FINISHED", "c": "KILLED", "d": "FINISHED"}
    assert [step for step, _ in _history(uri, children["b"], "score")] == [100, 200, 300]
    assert [step for step, _ in _history(uri, children["a"], "score")] == [100, 200, 300]
    assert _history(uri, children["d"], "score") == [(100, 5.0), (200, 10.0), (300, 9.0)]
    a = children["a"].info
    assert a.end_time < children["d"].info.end_time  # a run that had ended is left alone


def test_a_failed_trial_that_waits_to_start_anew_has_no_run_yet(uri: str, tmp_path: Path) -> None:
    first = _logger(uri, tmp_path)
    tuner_pkl = pickle.dumps(first)
    first.setup()
    trial = trial_of("a")
    first.on_trial_start(0, [], trial)
    report(first, trial, 1)
    trial.status = "ERROR"
    first.on_trial_error(0, [], trial)
    first.close()

    second = pickle.loads(tuner_pkl)
    second.start_anew(frozenset("a"))
    second.setup()
    second.on_step_begin(0, [trial])  # others go first: it still looks as it failed
    trial.status = "RUNNING"
    second.on_trial_start(0, [], trial)
    report(second, trial, 1, score=5.0)
    finish(second, trial)
    second.close()
    _, children = runs_of(uri)
    assert children["a before its restart"].info.status == "FAILED"
    assert _history(uri, children["a before its restart"], "score") == [(100, 1.0)]
    assert children["a"].info.status == "FINISHED"
    assert "tunescape.error" not in children["a"].data.tags
    assert _history(uri, children["a"], "score") == [(100, 5.0)]


def test_two_sweeps_of_the_same_name_are_two_parents(uri: str, tmp_path: Path) -> None:
    for _ in range(2):
        logger = _logger(uri, tmp_path)
        logger.setup()
        logger.close()
    client = mlflow_client(uri)
    experiment = client.get_experiment_by_name("tunescape")
    assert len(client.search_runs([experiment.experiment_id])) == 2


def test_state_survives_the_order_in_which_tune_restores_it(uri: str, tmp_path: Path) -> None:
    first = _logger(uri, tmp_path)
    first.setup()
    trial = trial_of("a")
    first.on_trial_start(0, [], trial)
    first.close("KILLED")
    second = pickle.loads(pickle.dumps(first))
    second.set_state(first.get_state())
    second.setup()  # after set_state(): must not reset
    assert second.run_ids == first.run_ids
    second.on_trial_start(0, [], trial)
    finish(second, trial)
    second.close()
    parent, children = runs_of(uri)
    assert (parent.info.status, children["a"].info.status) == ("FINISHED", "FINISHED")


def test_a_trial_that_recovers_does_not_repeat_its_rows(uri: str, tmp_path: Path) -> None:
    logger = _logger(uri, tmp_path)
    logger.setup()
    trial = trial_of("a")
    logger.on_trial_start(0, [], trial)
    for iteration in (1, 2):
        report(logger, trial, iteration)
    logger.on_trial_recover(0, [], trial)
    logger.on_trial_start(0, [], trial)
    for iteration in (2, 3):
        report(logger, trial, iteration, timestamp=1_800_000_000)  # at another time
    finish(logger, trial)
    logger.close()
    _, children = runs_of(uri)
    assert [step for step, _ in _history(uri, children["a"], "score")] == [100, 200, 300]


def test_settings_changed_in_mid_trial_become_metrics(uri: str, tmp_path: Path) -> None:
    """As PBT does: MLflow refuses to change a parameter, which ends Ray's own callback."""
    logger = _logger(uri, tmp_path)
    logger.setup()
    trial = trial_of("a", lr=0.1, gamma=0.9, filter="none")
    logger.on_trial_start(0, [], trial)
    report(logger, trial, 1)
    trial.config = {"lr": 0.2, "gamma": 0.9, "filter": "mean_std"}
    report(logger, trial, 2)
    report(logger, trial, 3)
    finish(logger, trial)
    logger.close()
    _, children = runs_of(uri)
    run = children["a"]
    assert run.data.params["lr"] == "0.1"
    assert _history(uri, run, "config/lr") == [(0, 0.1), (200, 0.2)]
    assert "config/gamma" not in run.data.metrics
    assert run.data.tags["tunescape.config.filter"] == "mean_std (from env step 200)"


def test_odd_values_are_logged_or_named_but_never_lose_a_row(uri: str, tmp_path: Path) -> None:
    logger = _logger(uri, tmp_path)
    logger.setup()
    trial = trial_of("a", env=dict, layers=[64, 64], text="x" * 10_000, empty={}, **{"a@b": None})
    logger.on_trial_start(0, [], trial)
    odd = {"nan": math.nan, "inf": -math.inf, "learner/a@b": 1.0, "/odd//path": 2.0, "big": 10**30}
    report(logger, trial, 1, **odd)
    finish(logger, trial)
    logger.close()
    _, children = runs_of(uri)
    run = children["a"]
    assert run.data.params["env"] == "builtins:dict"
    assert run.data.params["layers"] == "[64, 64]"
    assert run.data.params["a_b"] == "None"
    assert len(run.data.params["text"]) == 6000
    assert run.data.params["text"].endswith(f"... (whole in {LONG_PARAMS_ARTIFACT})")
    whole = mlflow_client(uri).download_artifacts(run.info.run_id, LONG_PARAMS_ARTIFACT)
    assert json.loads(Path(whole).read_text()) == {"text": "x" * 10_000}
    assert {"nan", "inf"}.isdisjoint(run.data.metrics)
    assert run.data.tags["tunescape.non_finite"] == "at env step 100: nan, inf"
    assert run.data.metrics["learner/a_b"] == 1.0
    assert run.data.metrics["odd/path"] == 2.0
    assert run.data.metrics["score"] == 1.0


def test_trials_cut_off_by_the_end_are_killed(uri: str, tmp_path: Path) -> None:
    logger = _logger(uri, tmp_path)
    logger.setup()
    trial = trial_of("a")
    logger.on_trial_start(0, [], trial)
    report(logger, trial, 1)
    logger.on_experiment_end([trial])  # Ctrl-C: Tune calls nothing else for it
    logger.close("KILLED")
    logger.close("FINISHED")  # the second call does nothing
    parent, children = runs_of(uri)
    assert (parent.info.status, children["a"].info.status) == ("KILLED", "KILLED")


def test_rows_of_a_run_are_merged_in_order() -> None:
    calls: list[Any] = []
    gate = threading.Event()
    writer = MLflowWriter("", lambda run, rows, tags: calls.append((run, rows)), flush_interval_s=0)
    writer._client = object()  # type: ignore[assignment]
    writer.submit("a", gate.wait)  # holds the thread until all is queued
    rows = [Row(step, 0, {f"m{i}": 1.0 for i in range(300)}) for step in range(7)]
    for row in rows[:5]:
        writer.submit_row("a", row)
        writer.submit_row("b", row)
    writer.submit("a", lambda: calls.append("end of a"))
    writer.submit_row("a", rows[5])
    gate.set()
    assert writer.close()
    a, b = (
        [
            [row.step for row in batch]
            for run, batch in (c for c in calls if c != "end of a")
            if run == r
        ]
        for r in "ab"
    )
    assert a == [[0, 1, 2], [3, 4], [5]]
    assert b == [[0, 1, 2], [3, 4]]
    assert calls.index("end of a") > calls.index(("a", rows[3:5]))
    assert calls.index("end of a") < calls.index(("a", [rows[5]]))
    assert MAX_BATCH_METRICS == 1000


def test_the_end_waits_as_long_as_the_server_goes_on_answering() -> None:
    written: list[int] = []
    writer = MLflowWriter("", lambda run, rows, tags: None, flush_interval_s=0)
    writer._client = object()  # type: ignore[assignment]
    for number in range(8):
        writer.submit(None, lambda n=number: (time.sleep(0.1), written.append(n)))  # type: ignore[misc]
    assert writer.close(timeout_s=0.4)  # in all it takes twice as long
    assert len(written) == 8


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _drive(logger: MLflowLogger) -> float:
    """Runs a short sweep through the callback; returns the longest that one call took."""
    slowest = 0.0
    for name in "ab":
        trial = trial_of(name)
        for call in (
            lambda trial=trial: logger.on_trial_start(0, [], trial),
            *(lambda i=i, trial=trial: report(logger, trial, i) for i in range(1, 50)),
            lambda trial=trial: finish(logger, trial),
        ):
            start = time.monotonic()
            call()
            slowest = max(slowest, time.monotonic() - start)
    return slowest


@pytest.mark.parametrize("kind", rarely(["refused", "silent"], ["silent"]))
def test_a_dead_server_delays_nothing_and_is_named_once(
    kind: str,
    silent_server: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    uri = silent_server if kind == "silent" else "http://127.0.0.1:9"
    logger = _logger(uri, tmp_path)
    with caplog.at_level(logging.WARNING):
        logger.setup()
        assert _drive(logger) < 0.1
        deadline = time.monotonic() + 60
        while "cannot be reached" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _drive(logger) < 0.1
        start = time.monotonic()
        logger.close("FINISHED")
        assert time.monotonic() - start < 8
    assert logger.parent_run_id is None
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("experiments")]
    assert sum("cannot be reached" in message for message in ours) == 1
    assert sum("could not be written" in message for message in ours) == 1
    assert uri in ours[0]


@pytest.fixture
def proxy() -> Iterator[Callable[[int], str]]:
    """Gives the URI of a proxy that answers with a status, and a page where MLflow has JSON."""

    class Handler(BaseHTTPRequestHandler):
        status = 200

        def do_GET(self) -> None:
            self.send_response(self.status)
            self.end_headers()
            self.wfile.write(b"<html>upstream is down</html>")

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    def start(status: int) -> str:
        Handler.status = status
        return f"http://127.0.0.1:{server.server_port}"

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield start
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "retries", "away"),
    [(503, "0", True), (503, "1", True), (429, "0", True), (500, "1", False), (403, "0", False)],
)
def test_a_proxy_whose_server_is_away_is_no_refusal(
    status: int,
    retries: str,
    away: bool,
    proxy: Callable[[int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", retries)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(Exception) as caught:
        log_batch(connect(proxy(status)), "0" * 32, [Row(1, 1, {"x": 1.0})])
    assert is_connection_error(caught.value) is away


def test_the_results_of_an_outage_are_logged_after_it(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    up = False

    def flaky(tracking_uri: str) -> Any:
        if not up:
            raise ConnectionError("no route to host")
        return connect(tracking_uri)

    monkeypatch.setattr(mlflow_writer, "connect", flaky)
    logger = _logger(uri, tmp_path)
    logger.setup()
    _drive(logger)
    time.sleep(0.3)
    up = True
    deadline = time.monotonic() + 10
    while logger.parent_run_id is None and time.monotonic() < deadline:
        time.sleep(0.05)
    logger.close()
    _, children = runs_of(uri)
    assert len(_history(uri, children["b"], "score")) == 49
    assert "answers again" in caplog.text


def test_memory_is_bounded_in_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()
    written: list[int] = []
    writer = MLflowWriter(
        "sqlite://",
        lambda run, rows, tags: written.extend(row.step for row in rows),
        flush_interval_s=0,
        max_pending_metrics=5000,
    )
    writer._client = object()  # type: ignore[assignment]
    writer.submit(None, gate.wait)
    for step in range(20_000):
        writer.submit_row("a", Row(step, 0, {"x": 1.0}))
    assert writer._num_pending_metrics <= 5000
    gate.set()
    assert not writer.close()
    assert written == list(range(20_000 - len(written), 20_000))  # the oldest were dropped
    assert 4000 <= len(written) <= 5000
    assert caplog.text.count("are dropped") == 1


def test_a_refused_request_loses_only_itself(uri: str, tmp_path: Path) -> None:
    logger = _logger(uri, tmp_path)
    logger.setup()
    trial = trial_of("a")
    logger.on_trial_start(0, [], trial)
    report(logger, trial, 1)
    logger.log_best("a", str(tmp_path / "no such folder"))
    report(logger, trial, 2)
    finish(logger, trial)
    logger.close()
    parent, children = runs_of(uri)
    assert parent.info.status == "FINISHED"
    assert [step for step, _ in _history(uri, children["a"], "score")] == [100, 200]


@pytest.mark.full("test_a_resumed_sweep_continues_its_runs")
def test_a_driver_killed_while_it_makes_the_database_leaves_none(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
    code = f"from experiments.tracking.store import connect; connect({uri!r})"
    driver = subprocess.Popen([sys.executable, "-c", code])
    while not any(p.stat().st_size > 4096 * 20 for p in tmp_path.glob("runs/.mlflow.db.*.new")):
        assert driver.poll() is None
        time.sleep(0.002)
    driver.kill()  # some tables exist
    driver.wait()
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    assert connect(uri).search_experiments()


def test_a_run_whose_making_was_cut_off_gets_its_parameters_at_the_next_try(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = True

    def once(*args: Any, **kwargs: Any) -> None:
        nonlocal fail
        if fail and kwargs.get("params", args[3] if len(args) > 3 else None):
            fail = False
            raise ConnectionError("cut off between two requests")
        log_batch(*args, **kwargs)

    logger = _logger(uri, tmp_path)
    logger.setup()
    monkeypatch.setattr("experiments.tracking.runs.log_batch", once)
    trial = trial_of("a", lr=0.1, env="CartPole-v1")
    logger.on_trial_start(0, [], trial)
    report(logger, trial, 1)
    finish(logger, trial)
    time.sleep(0.3)
    logger.close()
    _, children = runs_of(uri)
    assert not fail
    assert children["a"].data.params == {"lr": "0.1", "env": "CartPole-v1"}
    assert len(children["a"].inputs.dataset_inputs) == 1
