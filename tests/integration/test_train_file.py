"""`tunescape train file`, as its user runs it: a file, or a URL, in RLlib's form."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from experiments import cli

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


def test_a_url_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grid.yaml").write_text(FILE)
    # A trainable in the current folder, as every process finds it.
    (tmp_path / "sweep_dummy.py").write_bytes(
        Path(__file__).parents[1].joinpath("sweep_dummy.py").read_bytes()
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "experiments.cli", "train", "file"),
                f"http://127.0.0.1:{server.server_port}/grid.yaml",
                *("--set", "mlflow.enabled=false", "--set", "resources.num_cpus=1"),
                # Neither code nor folders may be named by a file from elsewhere.
                *("--set", "trainable=sweep_dummy:Dummy", "--set", "storage=results"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=180,
            check=False,
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert "episode_return_mean: all 2 trials" in done.stdout
    rows = [
        json.loads(line)
        for file in sorted((tmp_path / "results" / "dummy-grid").glob("*/result.json"))
        for line in file.read_text().splitlines()
    ]
    assert sorted(row["config"]["num_epochs"] for row in rows) == [2] * 3 + [4] * 3


def run(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The command in this process: exit status, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
    with pytest.raises(SystemExit) as status:
        cli.main()
    captured = capsys.readouterr()
    return int(status.value.code or 0), captured.out, captured.err


EXAMPLE = "x: {run: PPO, env: CartPole-v1, config: {framework: tf2, lr: 1e-4}}\n"


def test_options_stand_for_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(EXAMPLE)
    options = ["--stop", '{"training_iteration": 2}', "--framework", "torch", "--name", "y"]
    options += ["--checkpoint-freq", "3", "--num-samples", "2", "--set", "config.lr=0.5"]
    status, output, notes = run(
        ["train", "file", str(path), *options, "--dry-run"], monkeypatch, capsys
    )
    assert status == 0
    for expected in ("name: y", "training_iteration: 2", "frequency: 3", "# trials: 2", "lr: 0.5"):
        assert expected in output
    assert f"Note: {path}:1: framework = 'tf2' is left out: everything here is PyTorch" in notes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["file", "{}"], "--stop is missing"),
        (["file", "{}", "--stop", "3"], "--stop 3: expected a mapping"),
        (["file", "{}", "--stop", "{a: 1}"], "unknown metric 'a'"),
        (["file", "{}", "--framework", "tf2"], "framework = 'tf2' is not supported"),
        (["--algo", "PPO", "file", "{}"], "write --algo after `train file SPEC`"),
        ([], "--algo is missing; to train what a file says: train file SPEC"),
        (["--algo", "PPO", "--env", "CartPole-v1"], "--stop is missing"),
        (
            ["--algo", "PPO", "--env", "CartPole-v1", "--framework", "tf2"],
            "framework = 'tf2' is not supported",
        ),
        (["file", "nowhere.yaml"], "nowhere.yaml: no such file"),
    ],
)
def test_mistakes(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(EXAMPLE)
    status, _, errors = run(
        ["train", *(argument.replace("{}", str(path)) for argument in arguments)],
        monkeypatch,
        capsys,
    )
    assert status == 2 and expected in errors


def test_space(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = run(["space", "PPO/zoo", "--as", "yaml"], monkeypatch, capsys)
    assert status == 0 and "search_space:\n  lr: {loguniform: [1.0e-05, 0.002]}" in output
    status, _, errors = run(["space", "PPO/zo"], monkeypatch, capsys)
    assert status == 2 and "did you mean 'ppo/zoo'" in errors


def test_evaluate_refuses_the_policy_of_another_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gymnasium.spaces import Box, Discrete

    from trainables.core.policy.policy import Policy

    metadata = {"algorithm": "PPO", "env": "CartPole-v1"}
    Policy(Box(-1, 1, (4,)), Discrete(2), metadata=metadata).save(tmp_path)
    arguments = ["evaluate", str(tmp_path), "--env", "Nowhere-v0", "--algo"]
    status, _, errors = run([*arguments, "DQN"], monkeypatch, capsys)
    assert status == 2 and "was trained by PPO, not by DQN" in errors
    status, _, errors = run([*arguments, "PPO"], monkeypatch, capsys)
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


def test_a_python_file_is_trained(tmp_path: Path) -> None:
    """From another folder than its own: its env runners find the class that it defines, too."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own_cartpole.py").write_text(PYTHON_FILE)
    command = [sys.executable, "-m", "experiments.cli", "train", "file", "own/own_cartpole.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    (result,) = (tmp_path / "runs" / "own_cartpole").glob("*/result.json")
    (line,) = result.read_text().splitlines()
    assert json.loads(line)["num_env_steps_sampled_lifetime"] > 100
