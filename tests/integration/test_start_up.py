"""What a user waits for: an answer that needs no PyTorch, Tune or MLflow imports none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled

from analysis.results.failures import shown_cause
from experiments import cli
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_vector_env

HEAVY = ("torch", "ray.tune", "mlflow", "pandas", "optuna", "matplotlib")
PROBE = f"""
import sys
from experiments import cli
sys.argv = ["tunescape", *sys.argv[1:]]
try:
    cli.main()
finally:
    print("LOADED", [name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--version"], 0, "ray 2"),
        (["list"], 0, "Algorithms:"),
        (["run", "nosuch.yaml"], 2, "no such file"),
        (["run", "typo.yaml"], 2, "did you mean 'num_samples'"),
        (["run", "quickstart", "--set", "num_sample=3"], 2, "did you mean 'num_samples'"),
        (["run", "quickstart", "--set", "trainable=TD3"], 2, "nearest: SAC"),
        (["train", "--algo", "PPOO", "--env", "x", "--stop", "{a: 1}"], 2, "did you mean 'PPO"),
        (["space", "nosuch"], 2, "unknown search space"),
        (["run", "--no-such-option"], 2, "No such option"),
    ],
)
def test_nothing_heavy_is_imported(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    (tmp_path / "typo.yaml").write_text("name: s\nconfig: {env: CartPole-v1}\nnum_sample: 3\n")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tunescape", "--version"])
    with pytest.raises(SystemExit) as status:
        cli.main()
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert not status.value.code and names == ["tunescape", "ray", "torch", "Python"]


@pytest.mark.parametrize(
    ("env", "extra"),
    [("HalfCheetah-v5", "mujoco"), ("Ant-v4", "mujoco"), ("LunarLander-v3", "box2d")],
)
def test_the_extra_is_named(env: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object, **options: object) -> None:
        raise DependencyNotInstalled("not installed")

    monkeypatch.setattr(gym, "make", missing)
    monkeypatch.setattr(gym, "make_vec", missing)
    with pytest.raises(ConfigError, match=rf"env '{env}' needs .*'tunescape\[{extra}\]'"):
        make_vector_env(env, {})


def test_our_errors_are_shown_without_their_class() -> None:
    kind = f"{ConfigError.__module__}.{ConfigError.__qualname__}"
    assert shown_cause(f"Traceback …\n{kind}: lr = -1 is not allowed") == "lr = -1 is not allowed"
    assert shown_cause("ValueError: x") == "ValueError: x"
