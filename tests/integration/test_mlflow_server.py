"""Sweeps tracked by a real MLflow server: the model, datasets, credentials, and an outage."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from logged_trials import STEPS, finish, report, runs_of, trial_of
from mlflow_client import mlflow_client

from analysis import curves_frame
from analysis.credentials import has_secret, scrubbed, without_credentials
from analysis.reachable import check_tracking
from analysis.results import mlflow_history
from analysis.results.mlflow import load_mlflow_sweep
from experiments.benchmarks.mlflow_server import MLflowServer
from experiments.tracking.logger import MLflowLogger
from trainables.core.policy.policy import Policy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MLflowServer]:
    server = MLflowServer(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = gym.make("CartPole-v1")
    model = {"fcnet_hiddens": [8]}
    policy = Policy(env.observation_space, env.action_space, model, seed=0)
    return policy.save(tmp_path_factory.mktemp("policy") / "best")


def _run_trial(logger: MLflowLogger, trial: Any, iterations: int = 3) -> float:
    """Reports a whole trial; returns the longest time that one call took, in seconds."""
    slowest = 0.0

    def call(hook: Any, *args: Any, **metrics: Any) -> None:
        nonlocal slowest
        start = time.monotonic()
        hook(*args, **metrics)
        slowest = max(slowest, time.monotonic() - start)

    call(logger.on_trial_start, 0, [trial], trial)
    for i in range(1, iterations + 1):
        returns = {"episode_return_mean": 2.0 * i, "episode_reward_mean": 2.0 * i}
        call(report, logger, trial, i, **returns, timesteps_total=100 * i)
    call(finish, logger, trial)
    return slowest


# Runs where neither this package nor Ray can be imported, as at a user of the model.
_PREDICT = """
import json, sys, warnings
sys.modules["ray"] = None
import mlflow, numpy as np
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
observations = np.array(json.loads(sys.argv[3]), np.float32)
import trainables
print(json.dumps({
    "actions": model.predict(observations).tolist(),
    "explored": model.predict(observations, params={"explore": True}).tolist(),
    "inputs": model.metadata.signature.inputs.to_dict(),
    "outputs": model.metadata.signature.outputs.to_dict(),
    "code": trainables.__file__,
    "experiments": "experiments" in sys.modules,
}))
"""


@pytest.mark.timeout(200)
@pytest.mark.full("integration/test_cli.py::test_the_best_policy_is_a_model_in_mlflow")
def test_the_best_policy_is_a_registered_model_with_a_signature(
    server: MLflowServer, policy_folder: Path, tmp_path: Path
) -> None:
    logger = MLflowLogger(server.uri, "sweep", register_as="cartpole", params={"seed": 1})
    logger.setup()
    _run_trial(logger, trial_of("a", lr=0.1))
    for _ in range(2):  # a sweep resumed after its end has nothing new to log
        logger.log_best("a", str(policy_folder), checkpoint="a/checkpoint_000002")
    logger.close()

    parent, children = runs_of(server.uri, logger.sweep.sweep_id)
    tags = parent.data.tags
    assert tags["tunescape.registered_model"] == "models:/cartpole/1"
    client = mlflow_client(server.uri)
    assert [v.version for v in client.search_model_versions("name = 'cartpole'")] == ["1"]
    (output,) = children["a"].outputs.model_outputs
    assert tags["tunescape.model_uri"] == f"models:/{output.model_id}"
    model = client.get_logged_model(output.model_id)
    assert (model.status, model.params) == ("READY", {"lr": "0.1"})
    files = Path(client.download_artifacts(parent.info.run_id, "best_policy", str(tmp_path)))
    assert not [f for f in files.rglob("*") if f.suffix in (".pkl", ".pickle", ".pt")]

    observations = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    argument = json.dumps(observations.tolist())
    done = subprocess.run(
        [sys.executable, "-c", _PREDICT, server.uri, "models:/cartpole/1", argument],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    expected = Policy.load(policy_folder).compute_actions(observations, explore=False)
    assert found["actions"] == expected.tolist()
    assert set(found["explored"]) <= {0, 1}
    spec = {"dtype": "float32", "shape": (-1, 4)}
    assert found["inputs"] == [{"type": "tensor", "tensor-spec": {**spec, "shape": [-1, 4]}}]
    assert found["outputs"][0]["tensor-spec"] == {"dtype": "int64", "shape": [-1]}
    assert "artifacts" in found["code"] or "tmp" in found["code"]
    assert not found["experiments"]


@pytest.mark.full("integration/test_cli.py::test_the_best_policy_is_a_model_in_mlflow")
def test_runs_name_their_environment_and_each_metric_once(server: MLflowServer) -> None:
    config = {"env": "CartPole-v1", "env_config": {"gravity": 5.0}}
    logger = MLflowLogger(server.uri, "sweep", config=config)
    logger.setup()
    _run_trial(logger, trial_of("a", **config))
    _run_trial(logger, trial_of("b", env="envpool:Pong-v5"))
    logger.close()
    parent, children = runs_of(server.uri, logger.sweep.sweep_id)
    datasets = {}
    for name, run in {"parent": parent, **children}.items():
        (entry,) = run.inputs.dataset_inputs
        assert [(tag.key, tag.value) for tag in entry.tags] == [("mlflow.data.context", "training")]
        datasets[name] = entry.dataset
    assert datasets["parent"].digest == datasets["a"].digest != datasets["b"].digest
    assert datasets["a"].name == "CartPole-v1"
    profile = json.loads(datasets["a"].profile)
    assert profile["version"] == "1" and profile["env_config"] == {"gravity": 5.0}
    assert profile["gymnasium"] == gym.__version__
    metrics = children["a"].data.metrics
    assert {"score", "episode_return_mean", STEPS} <= set(metrics)
    assert {"episode_reward_mean", "timesteps_total"}.isdisjoint(metrics)


@pytest.mark.timeout(200)
@pytest.mark.full(
    "unit/outcomes/results/test_mlflow_source.py::test_frames_are_those_of_the_folder"
)
def test_a_sweep_is_read_back_in_bulk(
    server: MLflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = MLflowLogger(server.uri, "read_back")
    logger.setup()
    for name in ("a", "b"):
        _run_trial(logger, trial_of(name, lr=0.1))
    logger.close()

    def refuse(*_: Any) -> Any:
        raise AssertionError("one request for each metric of each run")

    monkeypatch.setattr(mlflow_history, "_from_client", refuse)
    sweep = load_mlflow_sweep("tunescape/read_back", tracking_uri=server.uri)
    assert [t.trial_id for t in sweep.trials] == ["a", "b"]
    curves = curves_frame(sweep, ["score"])
    assert curves["score"].tolist() == [1.0, 2.0, 3.0] * 2
    assert curves[STEPS].tolist() == [100, 200, 300] * 2


@pytest.mark.full(
    "integration/test_mlflow_logger.py::test_a_dead_server_delays_nothing_and_is_named_once"
)
def test_a_server_killed_in_mid_sweep_delays_nothing_and_gets_the_rest_later(
    server: MLflowServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    logger = MLflowLogger(server.uri, "sweep", max_pending_metrics=1000)
    with caplog.at_level(logging.WARNING):
        logger.setup()
        _run_trial(logger, trial_of("before"))
        _wait(lambda: "before" in logger.run_ids)
        server.kill()
        slowest = max(_run_trial(logger, trial_of(f"t{i}"), iterations=50) for i in range(12))
        assert slowest < 0.1  # far from a request's timeout
        server.start()
        logger.close()
    parent, children = runs_of(server.uri, logger.sweep.sweep_id)
    assert parent.info.status == "FINISHED"
    assert set(children) == {"before", *(f"t{i}" for i in range(12))}
    assert {run.info.status for run in children.values()} == {"FINISHED"}
    client = mlflow_client(server.uri)
    found = sum(
        len(client.get_metric_history(run.info.run_id, metric))
        for run in (parent, *children.values())
        for metric in run.data.metrics
    )
    dropped = int(parent.data.tags["tunescape.dropped_metrics"])
    submitted = 4 * (12 * 50 + 3) + 2  # and the best so far, twice
    # Every value is there, or counted as lost; what the server had just written as it died, both.
    assert submitted <= found + dropped <= submitted + 4 * 3
    assert 0 < dropped <= submitted - 1000 + 200  # what had no room; a batch is dropped whole
    assert f"{dropped} metric values of this sweep could not be written" in caplog.text


def _wait(condition: Any, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.full("test_credentials_in_uris")
def test_credentials_of_a_tracking_uri_are_used_and_never_shown(
    server: MLflowServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    uri = server.uri.replace("://", "://ada:pa55@")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: sweep\n")
    logger = MLflowLogger(uri, "sweep", spec_path=str(spec))
    logger.setup()
    _run_trial(logger, trial_of("a"))
    logger.close()
    parent, children = runs_of(server.uri, logger.sweep.sweep_id)
    assert parent.info.status == children["a"].info.status == "FINISHED"
    assert "pa55" not in str(parent.to_dictionary()) + str(children["a"].to_dictionary())
    assert b"pa55" not in pickle.dumps(logger)
    lost = MLflowLogger("http://ada:pa55@127.0.0.1:9", "sweep")
    lost.setup()
    _wait(lambda: "cannot be reached" in caplog.text)
    lost.close()
    assert "://***@127.0.0.1:9 cannot be reached" in caplog.text
    assert "could not be written" in caplog.text and "pa55" not in caplog.text
    printed = capfd.readouterr()
    assert "pa55" not in printed.out + printed.err and "View run" not in printed.out
    assert check_tracking(uri) is None
    problem = check_tracking("http://ada:pa55@127.0.0.1:9")
    assert problem is not None and "pa55" not in problem


def test_credentials_in_uris() -> None:
    expected = {
        "http://h:5000": ("http://h:5000", "http://h:5000", False),
        "sqlite:////a/b.db": ("sqlite:////a/b.db", "sqlite:////a/b.db", False),
        "https://t0ken@h/x": ("https://***@h/x", "https://h/x", True),
        "postgresql://ada@h/x": ("postgresql://***@h/x", "postgresql://h/x", False),
        "mysql://a:b@c@h:1/x?q=1": ("mysql://***@h:1/x?q=1", "mysql://h:1/x?q=1", True),
        "mysql://h/x?password=p&q=1": ("mysql://h/x?password=***&q=1", "mysql://h/x?q=1", True),
    }
    found = {uri: (scrubbed(uri), without_credentials(uri), has_secret(uri)) for uri in expected}
    assert found == expected
    for uri, (shown, _, _) in expected.items():
        assert scrubbed(f"no answer from {uri}, again") == f"no answer from {shown}, again"
