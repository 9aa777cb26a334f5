"""The command line, as its user runs it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import yaml
from cheap_sweeps import drawn
from forked_drivers import ROOT, completed
from mlflow_client import mlflow_client

from experiments import cli
from experiments.commands.results.tracking_ui import HOST, serve, store_of, ui_command
from experiments.errors import ExperimentError
from experiments.terminal import make_console


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder that holds one short run of `tunescape train`, and what that printed."""
    folder = tmp_path_factory.mktemp("cli")
    # An environment in a module of the current folder, which every process must find.
    (folder / "my_env.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class MyEnv(CartPoleEnv):\n    pass\n"
    )
    config = {"train_batch_size_per_learner": 256, "minibatch_size": 64, "num_epochs": 1}
    with drawn():
        done = completed(
            *("train", "--run", "PPO", "--env", "my_env:MyEnv"),
            *("--stop", '{"timesteps_total": 1000}', "--config", json.dumps(config)),
            *("--name", "one", "--set", "seed=1", "--set", "resources.num_cpus=1"),
            cwd=folder,
        )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_train_prints_what_came_out_and_what_to_do_next(trained: tuple[Path, str]) -> None:
    folder, output = trained
    assert "episode_return_mean: all 1 trials" in output
    best = Path("runs", "one", "best")
    assert f"tunescape evaluate {best}" in output
    assert "tunescape ui runs/one" in output and "tunescape resume runs/one" in output
    assert (folder / best / "policy.json").is_file()
    spec = yaml.safe_load((folder / "runs" / "one" / "spec.yaml").read_text())
    assert spec["config"]["num_epochs"] == 1 and spec["seed"] == 1
    assert (folder / "runs" / "mlflow.db").is_file()


def test_evaluate(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    outputs = [
        completed("evaluate", target, "--episodes", "3", "--env", "CartPole-v1", cwd=folder)
        for target in ("runs/one", "runs/one/best")
    ]
    assert [done.returncode for done in outputs] == [0, 0], outputs[0].stderr
    assert outputs[0].stdout == outputs[1].stdout  # the same policy, the same seeds
    assert re.match(r"CartPole-v1: return \d+\.\d\d ± .* over 3 episodes", outputs[0].stdout)


def test_export(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    done = completed("export", "runs/one", "-o", "policy", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Exported to policy" in done.stdout
    assert (folder / "policy" / "policy.json").is_file()


@pytest.mark.full("integration/test_extend.py::test_more_samples_are_those_of_a_larger_sweep")
def test_resume_of_a_finished_run_changes_nothing(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    (rows,) = (folder / "runs" / "one").glob("*/result.json")
    before = rows.read_text()
    done = completed("resume", "runs/one", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert rows.read_text() == before


def test_the_best_policy_is_a_model_in_mlflow(trained: tuple[Path, str]) -> None:
    from mlflow import pyfunc

    from trainables.core.policy.policy import Policy

    folder, output = trained
    client = mlflow_client(f"sqlite:///{folder}/runs/mlflow.db")
    (model,) = client.search_logged_models(["1"])
    assert f"MLflow model: {model.model_uri}" in output
    observations = np.zeros((3, 4), np.float32)
    expected = Policy.load(folder / "runs" / "one" / "best").compute_actions(
        observations, explore=False
    )
    loaded = pyfunc.load_model(model.artifact_location)
    assert loaded.predict(observations).tolist() == expected.tolist()
    run = client.get_run(model.source_run_id)
    assert run.data.tags["tunescape.best"] == "true"
    assert run.inputs.dataset_inputs[0].dataset.name == "my_env:MyEnv"


def test_the_sweeps_run_in_mlflow_tells_what_came_out(trained: tuple[Path, str]) -> None:
    folder, output = trained
    assert f"Report: {Path('runs', 'one', 'report.html')}" in output
    client = mlflow_client(f"sqlite:///{folder}/runs/mlflow.db")
    (sweep,) = client.search_runs(["1"], "tags.`tunescape.kind` = 'sweep'")
    kept = {artifact.path for artifact in client.list_artifacts(sweep.info.run_id)}
    assert kept >= {"report.html", "plots", "best_policy", "spec.yaml", "environment.json"}
    note = sweep.data.tags["mlflow.note.content"]
    assert "1 trial: 1 finished." in note and "[model](#/experiments/1/models/m-" in note
    value = sweep.data.metrics["episode_return_mean"]
    assert f"**{value:.4g}** is the highest" in note


@pytest.mark.full("test_train_prints_what_came_out_and_what_to_do_next")
def test_ui_serves_the_store_on_loopback(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    store = f"sqlite:///{folder / 'runs' / 'mlflow.db'}"
    assert store_of(folder / "runs") == store_of(folder / "runs" / "one") == store
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = ui_command(port)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "ui", "runs/one", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2) as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.3)
        with pytest.raises(ExperimentError, match=f"port {port} .* cannot be used"):
            serve(folder / "runs", port, make_console())
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=120)
    assert f"The sweep one: http://{HOST}:{port}/#/experiments/1/runs?viewStateShareKey=" in output
    with pytest.raises(OSError):  # the server went with the command
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2).close()
            time.sleep(0.2)


def test_dry_run_shows_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    done = completed("run", "quickstart", "--storage", str(tmp_path / "x"), "--dry-run", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "# trials: 8" in done.stdout and "loguniform" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tunescape", "list"])
    with pytest.raises(SystemExit) as status:
        cli.main()
    assert status.value.code == 0
    output = capsys.readouterr().out
    assert "PPO" in output and "ppo" in output and "quickstart" in output


@pytest.mark.full(
    "integration/test_doomed_sweeps.py::test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up"
)
def test_all_trials_failed(tmp_path: Path) -> None:
    """Exit status 1, and each cause on one line."""
    spec = {
        "name": "broken",
        "trainable": "broken:Broken",
        "search_space": {"x": {"grid": [1, 2]}},
        "stop": {"training_iteration": 1},
        "max_failures": 0,
        "mlflow": {"enabled": False},
        "resources": {"num_cpus": 2},
    }
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    (tmp_path / "broken.py").write_text(
        "from ray import tune\n\n\n"
        "class Broken(tune.Trainable):\n"
        "    def step(self):\n"
        "        raise RuntimeError('no luck')\n"
    )
    done = completed("run", "spec.yaml", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "2 of 2 trials failed:" in done.stdout
    assert "2 trials, e.g. " in done.stdout and "RuntimeError: no luck" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "evaluate" not in done.stdout


def test_help_is_fast_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from experiments import cli\n"
        "heavy = {'ray', 'torch', 'mlflow', 'optuna', 'pandas', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.argv[1:] = ['--help']; cli.main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("run", "resume", "train", "evaluate", "export", "list", "ui"):
        assert re.search(rf"^\W+{name}\s", done.stdout, re.MULTILINE), name
