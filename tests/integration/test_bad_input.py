"""What a user may get wrong: one clear message, exit status 2, no traceback, nothing written."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from stages import without_stages
from sweep_dummy import NAME

from experiments import cli

ROOT = Path(__file__).parents[2]
Told = tuple[int, str, str]
"""Exit status, stdout, stderr."""


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    """Run the command line in this process."""

    def told(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
        with pytest.raises(SystemExit) as status:
            cli.main()
        output, errors = capsys.readouterr()
        return int(status.value.code or 0), output, without_stages(errors)

    return told


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


def refusal(told: Told, tmp_path: Path) -> str:
    """The one line that says what is wrong, the same in every folder and on every machine."""
    status, output, errors = told
    assert status == 2, (output, errors)
    assert errors.startswith("Error: ") and errors.count("\n") == 1, errors
    assert "Traceback" not in errors + output
    line = errors.replace(str(tmp_path), "<folder>").replace(str(ROOT), "<repository>")
    return re.sub(r"the nodes have .*?(?=[;.] )", "the nodes have <nodes>", line)


BAD_SPECS: dict[str, dict[str, Any]] = {
    "a key": {"num_sample": 3},
    "an environment": {"config": {"env": "CartPole-v7"}},
    "a number": {"config": {"env": "CartPole-v1", "lr": -1}},
    "a type": {"config": {"env": "CartPole-v1", "lr": "fast"}},
    "a setting": {"config": {"env": "CartPole-v1", "gama": 0.9}},
    "a setting of the model": {"config": {"env": "CartPole-v1", "model": {"fcnet_hidens": [8]}}},
    "an algorithm": {"trainable": "PPPO"},
    "a stop criterion": {"stop": {"episode_reward": 1}},
    "a number of seeds": {"seeds": 0},
    "a search space": {"search_space": "pop"},
    "a remote storage": {"storage": "s3://bucket/x"},
    "more CPUs than there are": {
        "config": {
            "env": "CartPole-v1",
            "num_env_runners": 4096,
            "train_batch_size_per_learner": 10**6,
        }
    },
}


def test_bad_specs(
    tmp_path: Path, command: Callable[..., Told], golden: Callable[..., None]
) -> None:
    texts = {}
    for case, changes in BAD_SPECS.items():
        texts[case] = refusal(command("run", spec_file(tmp_path, **changes)), tmp_path)
        assert not (tmp_path / "runs" / "sweep").exists(), case
    golden("bad_specs_at_the_command_line", texts)


BAD_COMMANDS: list[list[str]] = [
    ["run", "nothere.yaml"],
    ["run", "quickstart", "--set", "config.lr=-1"],
    ["run", "quickstart", "--num-samples", "0"],
    ["run", "quickstart", "--name", "a/b/c/d"],
    ["run", "quickstart", "--experiment", "x"],
    ["resume", "nothere"],
    ["evaluate", "nothere"],
    ["export", "nothere"],
    ["ui", "nothere"],
    ["train", "--algo", "PPO", "--env", "CartPole-v1"],
    ["train", "--algo", "PPO", "--stop", "{x", "--env", "CartPole-v1"],
    ["train", "--algo", "PPO", "--stop", "[]", "--env", "CartPole-v1"],
    ["train", "--algo", "DQQN", "--env", "CartPole-v1", "--stop", "{a: 1}"],
]


def test_bad_command_lines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., Told],
    golden: Callable[..., None],
) -> None:
    monkeypatch.chdir(tmp_path)
    told = {" ".join(given): refusal(command(*given), tmp_path) for given in BAD_COMMANDS}
    golden("bad_command_lines", told)


def test_verbose_shows_the_traceback(tmp_path: Path, command: Callable[..., Told]) -> None:
    status, _, errors = command("run", spec_file(tmp_path, x=1), "-vv")
    assert status == 2
    assert "Traceback" in errors and "unknown key 'x'" in errors.splitlines()[-1]


def test_unwritable_storage(tmp_path: Path, command: Callable[..., Told]) -> None:
    (tmp_path / "file").write_text("")
    storage = str(tmp_path / "file" / "runs")
    status, _, errors = command("run", spec_file(tmp_path), "--storage", storage)
    assert status == 2
    assert errors.count("\n") == 1 and storage in errors and "cannot be written" in errors


def test_required_tracking_server_that_is_not_there(
    tmp_path: Path, command: Callable[..., Told]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        mlflow = {"tracking_uri": uri, "required": True}
        status, _, errors = command("run", spec_file(tmp_path, mlflow=mlflow))
    assert status == 2
    assert errors.count("\n") == 1 and uri in errors and "cannot be reached" in errors


@pytest.mark.full(
    "integration/test_mlflow_logger.py::test_a_dead_server_delays_nothing_and_is_named_once"
)
def test_unreachable_tracking_server_loses_nothing(
    ray_here: None, tmp_path: Path, command: Callable[..., Told]
) -> None:
    """The default: a warning, and the sweep runs on without MLflow."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        mlflow = {"tracking_uri": uri}
        spec = spec_file(tmp_path, trainable=NAME, config={}, mlflow=mlflow)
        start = time.monotonic()
        status, output, errors = command("run", spec)
    assert status == 0, errors
    assert time.monotonic() - start < 60
    assert f"Warning: the MLflow tracking server {uri} cannot be reached" in errors
    assert "Traceback" not in errors + output
    folder = tmp_path / "runs" / "sweep"
    assert (folder / "best" / "policy.json").is_file()
    assert len(list(folder.glob("*/result.json"))) == 1


def test_a_damaged_policy(tmp_path: Path, command: Callable[..., Told]) -> None:
    (tmp_path / "policy.json").write_text("{")
    status, _, errors = command("evaluate", str(tmp_path))
    assert status == 2
    assert errors.count("\n") == 1 and str(tmp_path) in errors
