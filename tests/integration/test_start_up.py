"""What a user waits for: an answer that needs no PyTorch, Tune or MLflow imports none of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled
from typed_commands import typed

from analysis.results.failures import shown_cause
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_vector_env

HEAVY = ("torch", "ray", "mlflow", "pandas", "optuna", "matplotlib")
PROBE = f"""
import contextlib, io, json, sys
from experiments import cli
answers = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["tunescape", *arguments]
    said, status = io.StringIO(), None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    answers.append([status, said.getvalue(), loaded])
import experiments.tracking.logger
print(json.dumps([answers, "mlflow" in sys.modules]))
"""
COMMANDS = [
    (["--version"], 0, "ray 2"),
    (["list"], 0, "Algorithms:"),
    (["run", "nosuch.yaml"], 2, "no such file"),
    (["run", "typo.yaml"], 2, "did you mean 'num_samples'"),
    (["run", "quickstart", "--set", "num_sample=3"], 2, "did you mean 'num_samples'"),
    (["run", "quickstart", "--set", "trainable=TD3"], 2, "nearest: SAC"),
    (["run", "quickstart", "--dry-run", "--set", "config.lrr=1"], 2, "did you mean 'lr' (in .tr"),
    (["run", "quickstart", "--set", "config.gamma=2"], 2, "gamma = 2 is not allowed"),
    (["run", "quickstart", "--set", "search_space.lrr={uniform: [0, 1]}"], 2, "did you mean 'lr'"),
    (["train", "--algo", "PPOO", "--env", "x", "--stop", "{a: 1}"], 2, "did you mean 'PPO"),
    (["space", "nosuch"], 2, "unknown search space"),
    (["run", "--no-such-option"], 2, "No such option"),
]


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text("name: s\nconfig: {env: CartPole-v1}\nnum_sample: 3\n")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps([arguments for arguments, _, _ in COMMANDS])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers, mlflow_with_the_logger = json.loads(done.stdout.splitlines()[-1])
    for (arguments, status, words), (ended, said, loaded) in zip(COMMANDS, answers, strict=True):
        assert (ended, loaded) == (status, []) and words in said, (arguments, said)
    assert not mlflow_with_the_logger


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = typed(monkeypatch, capsys)("--version")
    names = [line.split()[0] for line in output.splitlines()]
    assert status == 0 and names == ["tunescape", "ray", "torch", "Python"]


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object, **options: object) -> None:
        raise DependencyNotInstalled("not installed")

    monkeypatch.setattr(gym, "make", missing)
    monkeypatch.setattr(gym, "make_vec", missing)
    extras = {"HalfCheetah-v5": "mujoco", "Ant-v4": "mujoco", "LunarLander-v3": "box2d"}
    for env, extra in extras.items():
        with pytest.raises(ConfigError, match=rf"env '{env}' needs .*'tunescape\[{extra}\]'"):
            make_vector_env(env, {})


def test_our_errors_are_shown_without_their_class() -> None:
    kind = f"{ConfigError.__module__}.{ConfigError.__qualname__}"
    assert shown_cause(f"Traceback …\n{kind}: lr = -1 is not allowed") == "lr = -1 is not allowed"
    assert shown_cause("ValueError: x") == "ValueError: x"
