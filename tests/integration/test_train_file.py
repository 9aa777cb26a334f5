"""`tunescape train file`, as its user runs it: a file, or a URL, in RLlib's form."""

from __future__ import annotations

import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from forked_drivers import completed
from typed_commands import Run, typed

FILE = """\
dummy-grid:
    run: sweep_dummy:Dummy
    stop: {training_iteration: 3}
    checkpoint_config: {checkpoint_frequency: 1, num_to_keep: 1}
    local_dir: results
    config:
        num_epochs: {grid_search: [2, 4]}
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return typed(monkeypatch, capsys)


@pytest.mark.usefixtures("ray_here")
def test_a_url_is_trained(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grid.yaml").write_text(FILE)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        status, output, errors = run(
            *("train", "file", f"http://127.0.0.1:{server.server_port}/grid.yaml"),
            *("--set", "mlflow.enabled=false"),
            # Neither code nor folders may be named by a file from elsewhere.
            *("--set", "trainable=sweep_dummy:Dummy", "--set", "storage=results"),
        )
        server.shutdown()
    assert status == 0, errors
    assert "episode_return_mean: all 2 trials" in output
    rows = [
        json.loads(line)
        for file in sorted(Path("results/dummy-grid").glob("*/result.json"))
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["config"]["num_epochs"] for row in rows) == [2] * 3 + [4] * 3


EXAMPLE = "x: {run: PPO, env: CartPole-v1, config: {framework: tf2, lr: 1e-4}}\n"


def test_options_stand_for_keys(run: Run) -> None:
    path = Path("x.yaml")
    path.write_text(EXAMPLE)
    options = ["--stop", '{"training_iteration": 2}', "--framework", "torch", "--name", "y"]
    options += ["--checkpoint-freq", "3", "--num-samples", "2", "--set", "config.lr=0.5"]
    status, output, notes = run("train", "file", str(path), *options, "--dry-run")
    assert status == 0
    for expected in ("name: y", "training_iteration: 2", "frequency: 3", "# trials: 2", "lr: 0.5"):
        assert expected in output
    assert f"Note: {path}:1: framework = 'tf2' is left out: everything here is PyTorch" in notes


def test_mistakes(run: Run) -> None:
    Path("x.yaml").write_text(EXAMPLE)
    file, algo = ("file", "x.yaml"), ("--algo", "PPO")
    refused = {
        file: "--stop is missing",
        (*file, "--stop", "3"): "--stop 3: expected a mapping",
        (*file, "--stop", "{a: 1}"): "unknown metric 'a'",
        (*file, "--framework", "tf2"): "framework = 'tf2' is not supported",
        (*algo, *file): "write --algo after `train file SPEC`",
        (): "--algo is missing; to train what a file says: train file SPEC",
        (*algo, "--env", "CartPole-v1"): "--stop is missing",
        (*algo, "--env", "a", "--framework", "tf2"): "framework = 'tf2' is not supported",
        ("file", "nowhere.yaml"): "nowhere.yaml: no such file",
    }
    for arguments, expected in refused.items():
        status, _, errors = run("train", *arguments)
        assert status == 2 and expected in errors, (arguments, errors)


def test_space(run: Run) -> None:
    status, output, _ = run("space", "PPO/zoo", "--as", "yaml")
    assert status == 0 and "search_space:\n  lr: {loguniform: [1.0e-05, 0.002]}" in output
    status, _, errors = run("space", "PPO/zo")
    assert status == 2 and "did you mean 'ppo/zoo'" in errors


def test_evaluate_refuses_the_policy_of_another_algorithm(tmp_path: Path, run: Run) -> None:
    from gymnasium.spaces import Box, Discrete

    from trainables.core.policy.policy import Policy

    metadata = {"algorithm": "PPO", "env": "CartPole-v1"}
    Policy(Box(-1, 1, (4,)), Discrete(2), metadata=metadata).save(tmp_path)
    arguments = ["evaluate", str(tmp_path), "--env", "Nowhere-v0", "--algo"]
    status, _, errors = run(*arguments, "DQN")
    assert status == 2 and "was trained by PPO, not by DQN" in errors
    status, _, errors = run(*arguments, "PPO")
    assert status != 0 and "trained by" not in errors and "Nowhere" in errors


PYTHON_FILE = """\
import gymnasium as gym
from trainables import PPOConfig


class OwnCartPole(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))


config = (
    PPOConfig()
    .environment(OwnCartPole)
    .env_runners(num_env_runners=1)
    .training(train_batch_size=128, minibatch_size=64, num_epochs=1)
)
stop = {"training_iteration": 1}
"""


@pytest.mark.full("test_a_url_is_trained")
def test_a_python_file_is_trained(tmp_path: Path) -> None:
    """From another folder than its own: its env runners find the class that it defines, too."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own_cartpole.py").write_text(PYTHON_FILE)
    done = completed("train", "file", "own/own_cartpole.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (result,) = (tmp_path / "runs" / "own_cartpole").glob("*/result.json")
    (line,) = result.read_text().splitlines()
    assert json.loads(line)["num_env_steps_sampled_lifetime"] > 100
