"""What a user may get wrong: one clear message, exit status 2, no traceback, nothing written."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from stages import without_stages
from sweep_dummy import NAME

from experiments import cli


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Run the command line in this process: exit status, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
    with pytest.raises(SystemExit) as status:
        cli.main()
    output, errors = capsys.readouterr()
    return int(status.value.code or 0), output, without_stages(errors)


def spec_file(tmp_path: Path, **changes: Any) -> str:
    data = {
        "name": "sweep",
        "trainable": "PPO",
        "config": {"env": "CartPole-v1"},
        "stop": {"training_iteration": 1},
        "storage": str(tmp_path / "runs"),
        **changes,
    }
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_sample": 3}, ["spec.yaml:", "'num_sample'", "'num_samples'"]),
        ({"config": {"env": "CartPole-v7"}}, ["spec.yaml:", "CartPole-v7", "CartPole-v1"]),
        ({"config": {"env": "CartPole-v1", "lr": -1}}, ["spec.yaml:5", "lr = -1", ">= 0"]),
        ({"config": {"env": "CartPole-v1", "lr": "fast"}}, ["spec.yaml:5", "lr = 'fast'"]),
        ({"config": {"env": "CartPole-v1", "gama": 0.9}}, ["spec.yaml:5", "'gama'", "gamma"]),
        (
            {"config": {"env": "CartPole-v1", "model": {"fcnet_hidens": [8]}}},
            ["spec.yaml:6", "fcnet_hidens", "fcnet_hiddens"],
        ),
        ({"trainable": "PPPO"}, ["spec.yaml:2", "'PPPO'", "PPO"]),
        ({"stop": {"episode_reward": 1}}, ["spec.yaml:6", "did you mean 'episode_re"]),
        ({"seeds": 0}, ["spec.yaml:", "seeds = 0", "above 0"]),
        ({"search_space": "pop"}, ["spec.yaml:", "'pop'", "ppo"]),
        ({"storage": "s3://bucket/x"}, ["s3://bucket/x", "remote storage is not supported"]),
        (
            {
                "config": {
                    "env": "CartPole-v1",
                    "num_env_runners": 4096,
                    "train_batch_size_per_learner": 10**6,
                }
            },
            ["this can never start", "4097 CPU", "the nodes have", "num_env_runners"],
        ),
    ],
)
def test_bad_specs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    expected: list[str],
) -> None:
    spec = spec_file(tmp_path, **changes)
    start = time.monotonic()
    status, output, errors = command(monkeypatch, capsys, "run", spec)
    assert status == 2
    assert time.monotonic() - start < 20
    assert errors.startswith("Error: ") and errors.count("\n") == 1, errors
    assert "Traceback" not in errors + output
    for part in expected:
        assert part in errors, errors
    assert not (tmp_path / "runs" / "sweep").exists()


def test_verbose_shows_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, errors = command(monkeypatch, capsys, "run", spec_file(tmp_path, x=1), "-vv")
    assert status == 2
    assert "Traceback" in errors and "unknown key 'x'" in errors.splitlines()[-1]


def test_unwritable_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    storage = str(tmp_path / "file" / "runs")
    status, _, errors = command(
        monkeypatch, capsys, "run", spec_file(tmp_path), "--storage", storage
    )
    assert status == 2
    assert errors.count("\n") == 1 and storage in errors and "cannot be written" in errors


def test_required_tracking_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        mlflow = {"tracking_uri": uri, "required": True}
        status, _, errors = command(monkeypatch, capsys, "run", spec_file(tmp_path, mlflow=mlflow))
    assert status == 2
    assert errors.count("\n") == 1 and uri in errors and "cannot be reached" in errors


def test_unreachable_tracking_server_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default: a warning, and the sweep runs on without MLflow."""
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", tests, prepend=os.pathsep)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        spec = spec_file(
            tmp_path,
            trainable=NAME,
            config={},
            mlflow={"tracking_uri": uri},
            resources={"num_cpus": 1},
        )
        start = time.monotonic()
        monkeypatch.setattr(sys, "argv", ["tunescape", "run", spec])
        with pytest.raises(SystemExit) as status:
            cli.main()
    output, errors = capsys.readouterr()
    assert status.value.code == 0, errors
    assert time.monotonic() - start < 60
    assert f"Warning: the MLflow tracking server {uri} cannot be reached" in errors
    assert "Traceback" not in errors + output
    folder = tmp_path / "runs" / "sweep"
    assert (folder / "best" / "policy.json").is_file()
    assert len(list(folder.glob("*/result.json"))) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "nothere.yaml"], "nothere.yaml: no such file"),
        (["run", "quickstart", "--set", "config.lr=-1"], "--set config.lr=-1: config: lr = -1"),
        (["run", "quickstart", "--num-samples", "0"], "num_samples = 0 is not allowed"),
        (["run", "quickstart", "--name", "a/b/c/d"], "it names a folder"),
        (["run", "quickstart", "--experiment", "x"], "--experiment does not apply"),
        (["resume", "nothere"], "no such folder"),
        (["evaluate", "nothere"], "no such folder"),
        (["export", "nothere"], "no such folder"),
        (["ui", "nothere"], "no MLflow database here"),
        (["train", "--algo", "PPO", "--env", "CartPole-v1"], "--stop is missing"),
        (["train", "--algo", "PPO", "--stop", "{x", "--env", "CartPole-v1"], "--stop:1: not valid"),
        (["train", "--algo", "PPO", "--stop", "[]", "--env", "CartPole-v1"], "expected a mapping"),
        (["train", "--algo", "DQQN", "--env", "CartPole-v1", "--stop", "{a: 1}"], "'DQQN'"),
    ],
)
def test_bad_command_lines(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    status, _, errors = command(monkeypatch, capsys, *arguments)
    assert status == 2
    assert errors.startswith("Error: ") and errors.count("\n") == 1
    assert expected in errors


def test_a_damaged_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.json").write_text("{")
    status, _, errors = command(monkeypatch, capsys, "evaluate", str(tmp_path))
    assert status == 2
    assert errors.count("\n") == 1 and str(tmp_path) in errors
