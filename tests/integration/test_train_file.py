"""`tunescape train file`, as its user runs it: a file, or a URL, in RLlib's form."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from experiments import cli


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
        ([], "--algo is missing; to train what a YAML file says: train file SPEC"),
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
    assert status == 2 and "did you mean 'zoo'" in errors


def test_evaluate_refuses_the_policy_of_another_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from trainables.core.policy import Policy

    policy = types.SimpleNamespace(metadata={"algorithm": "PPO", "env": "CartPole-v1"})
    monkeypatch.setattr(Policy, "load", lambda folder: policy)
    arguments = ["evaluate", str(tmp_path), "--env", "Nowhere-v0", "--algo"]
    status, _, errors = run([*arguments, "DQN"], monkeypatch, capsys)
    assert status == 2 and "was trained by PPO, not by DQN" in errors
    status, _, errors = run([*arguments, "PPO"], monkeypatch, capsys)
    assert status != 0 and "trained by" not in errors  # it goes on, to what the stand-in lacks
