"""The benchmarks start, measure and report; the peers are measured by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.benchmarks import gather, throughput, time_to_score
from experiments.benchmarks.trial_overhead import overheads


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather.console, "width", 120)


def test_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--rounds", "1", "--steps", "2048", "--warmup", "0", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["throughput", *given])
    throughput.main()
    shown = capsys.readouterr().out
    assert "Tunescape" in shown and "bare loop" in shown and ">= 0.85" in shown
    record = json.loads((tmp_path / "throughput.json").read_text())
    assert set(record["results"]) == {"ours", "bare"}  # no peers without their interpreter
    for name in ("ours", "bare"):
        [result] = record["results"][name]
        assert result["contestant"] == name
        # Rows that only reset are no steps.
        assert 1800 < result["env_steps"] < 2 * 2048
        assert result["env_steps_per_second"] == pytest.approx(
            result["env_steps"] / result["seconds"]
        )


def test_a_missed_score_counts_with_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--only", "bare", "--seeds", "1", "--cap", "0.2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["time_to_score", *given])
    time_to_score.main()
    [result] = json.loads((tmp_path / "time_to_score.json").read_text())["results"]["bare"]
    assert not result["reached"]
    assert result["charged_seconds"] == 0.2
    assert "1/1" in capsys.readouterr().out


def test_overheads_are_what_lies_between_results() -> None:
    # Results at 100 s, 101 s (trained 0.25 s) and 103 s (trained 1.5 s).
    ends = [(100.0, 9.0), (101.0, 0.25), (103.0, 1.5)]
    assert overheads(ends) == pytest.approx([0.75, 0.5])


def test_a_contestant_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"bare loop gave no result \(exit code 2\)"):
        gather.measure("bare", None, "no-such-task")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--peers-python", "/nowhere/python"], "there is no such file"),
        (["--only", "rllib"], "give --peers-python"),
    ],
)
def test_peers_need_their_interpreter(
    given: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["throughput", *given])
    with pytest.raises(SystemExit, match=message):
        throughput.main()


def test_the_peers_scripts_are_python() -> None:
    # They cannot be imported here: RLlib and Stable-Baselines3 are in their own environment.
    for name in gather.PEERS:
        script = gather.HERE / gather.SCRIPTS[name]
        subprocess.run([sys.executable, "-m", "py_compile", str(script)], check=True)
