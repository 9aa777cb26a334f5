"""The command lines of the reference's documents, with `tunescape` for `rllib` and small stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from typed_commands import typed

Run = Callable[..., tuple[int, str]]


pytestmark = pytest.mark.usefixtures("ray_here")


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The command in an empty folder: its exit status, and the words of all that it prints."""
    monkeypatch.chdir(tmp_path)
    run = typed(monkeypatch, capsys)

    def words(*arguments: str) -> tuple[int, str]:
        status, output, errors = run(*arguments)
        return status, " ".join((output + errors).split())

    return words


ONE = ("--stop", '{"training_iteration": 1}', "--name", "one", "--set", "mlflow.enabled=false")


def test_train_and_evaluate(run: Run) -> None:
    short = ("--set", "config.min_sample_timesteps_per_iteration=200")
    status, output = run("train", "--algo", "DQN", "--env", "CartPole-v1", *ONE, *short)
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
    assert status != 0 and "9 CPU" in output and "2 CPU" in output, output
    assert not Path("runs/one").exists()


SHORT = {"train_batch_size": 64, "min_sample_timesteps_per_iteration": 64}
TWO_WORKERS = {"num_workers": 2, "num_cpus_per_worker": 0.5}


def test_a2c(run: Run) -> None:
    config = {**SHORT, **TWO_WORKERS, "log_level": "DEBUG"}
    status, output = run(
        *("train", "--env=CartPole-v1", "--run=A2C", "--config", json.dumps(config), *ONE)
    )
    assert status == 0, output


def test_a2c_on_pong(run: Run) -> None:
    """The documents' line about verbosity, and videos of the games."""
    pytest.importorskip("ale_py")
    config = {**SHORT, **TWO_WORKERS, "monitor": True, "num_envs_per_worker": 1}
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


def test_what_is_refused_says_why(run: Run) -> None:
    given = ("train", "--run=PPO", "--env=CartPole-v1", "--config", '{"framework": "tf2"}', *ONE)
    for more, says in ((), "everything here is PyTorch"), (("--trace",), "No such option: --trace"):
        status, output = run(*given, *more)
        assert status != 0 and says in output, output


def test_help_lists_the_options(run: Run) -> None:
    status, output = run("train", "--help")
    assert status == 0
    assert all(option in output for option in ("--algo", "--run", "--env", "--stop", "--config"))
