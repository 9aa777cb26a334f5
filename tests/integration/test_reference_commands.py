"""The command lines of the reference's documents, with `tunescape` for `rllib` and small stops."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from experiments import cli

Run = Callable[..., tuple[int, str]]


pytestmark = pytest.mark.usefixtures("ray_here")
NUM_CPUS = 4  # an algorithm's actors hardly compute at a time


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in an empty folder: its exit status and all that it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
        with pytest.raises(SystemExit) as status:
            cli.main()
        captured = capsys.readouterr()
        return int(status.value.code or 0), " ".join((captured.out + captured.err).split())

    return run


ONE = ("--stop", '{"training_iteration": 1}', "--name", "one", "--set", "mlflow.enabled=false")


def test_train_and_evaluate(run: Run) -> None:
    status, output = run("train", "--algo", "DQN", "--env", "CartPole-v1", *ONE)
    assert status == 0, output
    assert "tunescape evaluate runs/one/best" in output
    [trial] = (path.parent for path in Path("runs/one").glob("*/params.json"))
    assert (trial / "result.json").is_file()
    checkpoint = str(next(trial.glob("checkpoint_*")))
    status, output = run("evaluate", checkpoint, "--algo", "DQN", "--env", "CartPole-v1")
    assert status == 0 and output.startswith("CartPole-v1: return "), output


def test_options_of_train(run: Run) -> None:
    config = {"num_workers": 0, "train_batch_size": 256, "lr": {"grid_search": [1e-3, 1e-4]}}
    status, output = run(
        *("train", "--run=PPO", "--env=CartPole-v1", "--config", json.dumps(config)),
        *("--framework=torch", "--checkpoint-freq", "1", *ONE),
    )
    assert status == 0, output
    spec = yaml.safe_load(Path("runs/one/spec.yaml").read_text())
    assert spec["checkpoint"]["frequency"] == 1
    assert len(list(Path("runs/one").glob("*/result.json"))) == 2


def test_more_workers_than_cpus_are_refused_before_the_start(run: Run) -> None:
    status, output = run(
        *("train", "--env=CartPole-v1", "--run=A2C", "--config", '{"num_workers": 8}', *ONE)
    )
    assert status != 0 and "9 CPU" in output and "4 CPU" in output, output
    assert not Path("runs/one").exists()


SHORT = {"train_batch_size": 64, "min_sample_timesteps_per_iteration": 64}


def test_a2c(run: Run) -> None:
    config = {**SHORT, "num_workers": 2, "log_level": "DEBUG"}
    status, output = run(
        *("train", "--env=CartPole-v1", "--run=A2C", "--config", json.dumps(config), *ONE)
    )
    assert status == 0, output


def test_a2c_on_pong(run: Run) -> None:
    """The documents' line about verbosity, and videos of the games."""
    pytest.importorskip("ale_py")
    config = {**SHORT, "num_workers": 2, "monitor": True, "num_envs_per_worker": 1}
    status, output = run(
        *("train", "--env=PongDeterministic-v4", "--run=A2C"),
        *("--config", json.dumps(config), *ONE, "-vv"),
    )
    assert status == 0, output


def test_episode_traces(run: Run, tmp_path: Path) -> None:
    short = {**SHORT, "minibatch_size": 32}
    config = {**short, "output": str(tmp_path / "debug"), "output_compress_columns": []}
    status, output = run(
        *("train", "--run=PPO", "--env=CartPole-v1", "--config", json.dumps(config), *ONE)
    )
    assert status == 0, output
    table = pq.read_table(tmp_path / "debug").to_pandas()
    assert len(table) >= 64
    assert {"obs", "action", "reward", "terminated", "truncated"} <= {*table}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--config", '{"framework": "tf2"}'), "everything here is PyTorch"),
        (("--config", '{"framework": "tf2"}', "--trace"), "No such option: --trace"),
    ],
)
def test_what_is_refused_says_why(run: Run, arguments: tuple[str, ...], says: str) -> None:
    status, output = run("train", "--run=PPO", "--env=CartPole-v1", *arguments, *ONE)
    assert status != 0 and says in output, output


def test_help_lists_the_options(run: Run) -> None:
    status, output = run("train", "--help")
    assert status == 0
    assert all(option in output for option in ("--algo", "--run", "--env", "--stop", "--config"))
