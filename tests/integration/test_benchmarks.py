"""The benchmarks start, measure and report; the peers are measured by hand."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from experiments.benchmarks import compiled, gather, halfcheetah, throughput, time_to_score
from experiments.benchmarks.off_policy import Recorded, greedy_returns
from experiments.benchmarks.trial_overhead import overheads
from experiments.spec import load_spec


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


@pytest.mark.parametrize(
    ("algorithm", "more", "file"),
    [("dqn", ["--slots", "8"], "throughput_dqn_8_slots"), ("sac", [], "throughput_sac")],
)
def test_off_policy_throughput(
    algorithm: str,
    more: list[str],
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--rounds", "1", "--steps", "80", "--warmup", "1050", "--out", str(tmp_path), *more]
    monkeypatch.setattr(sys, "argv", ["throughput", "--algorithm", algorithm, *given])
    throughput.main()
    shown = capsys.readouterr().out
    assert "updates/s" in shown and ">= 0.85" in shown
    record = json.loads((tmp_path / f"{file}.json").read_text())
    assert set(record["results"]) == {"ours", "bare"}
    for name in ("ours", "bare"):
        [result] = record["results"][name]
        assert (result["contestant"], result["algorithm"]) == (name, algorithm)
        assert 80 <= result["env_steps"] < 300
        # The equal settings: one for each step, whatever the number of slots.
        assert result["updates"] == result["env_steps"]
        assert result["updates_per_second"] == pytest.approx(result["updates"] / result["seconds"])
        assert 0 < result["update_ms"] < result["seconds"] * 1000 / result["updates"]


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_missed_score_counts_with_the_cap(
    algorithm: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--only", "bare", "--seeds", "1", "--cap", "0.2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["time_to_score", "--algorithm", algorithm, *given])
    time_to_score.main()
    file = "time_to_score.json" if algorithm == "ppo" else f"time_to_score_{algorithm}.json"
    record = json.loads((tmp_path / file).read_text())
    assert record["settings"]["target"] == (450.0 if algorithm == "ppo" else -250.0)
    [result] = record["results"]["bare"]
    assert not result["reached"]
    assert result["charged_seconds"] == 0.2
    assert "1/1" in capsys.readouterr().out


@pytest.mark.parametrize(("algorithm", "episodes"), [("dqn", 100), ("sac", 20)])
def test_the_tuned_settings_are_the_shipped_ones(
    algorithm: str, episodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A script, which finds its neighbour by its folder.
    monkeypatch.syspath_prepend(str(gather.HERE))
    ours = importlib.import_module("ours_off_policy")
    shipped = load_spec(ours.TUNED[algorithm]).config
    config = ours.tuned(algorithm).to_dict()
    assert {name: config[name] for name in shipped} == shipped
    assert config["metrics_num_episodes_for_smoothing"] == episodes


def test_a_curve_has_every_episode_and_a_greedy_evaluation() -> None:
    given = ("curve", "--env", "Pendulum-v1", "--steps", 1200)
    result = gather.measure("ours", None, *given, algorithm="sac")
    assert [steps for steps, _ in result["episodes"]] == [200, 400, 600, 800, 1000, 1200]
    assert all(-2000 < total < 0 for _, total in result["episodes"])
    assert len(set(result["evaluation"])) == 10  # other seeds, other starts
    assert result["evaluation_mean"] == pytest.approx(sum(result["evaluation"]) / 10)


def test_recorded_counts_steps_over_episodes() -> None:
    env = Recorded(gym.make("CartPole-v1", max_episode_steps=3))
    for _ in range(2):
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
    assert env.episodes == [(3, 3.0), (6, 3.0)]


def test_greedy_returns_repeat() -> None:
    first, again = (greedy_returns("Pendulum-v1", lambda obs: [0.0], episodes=2) for _ in range(2))
    assert first == again and first[0] != first[1]


def test_only_one_contestant_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def measure(name: str, _: object, *given: object, algorithm: str) -> dict[str, Any]:
        asked.append((name, algorithm, "--compile" in given))
        rate = 300.0 if name == "compiled" else 200.0
        return {"updates_per_second": rate, "update_ms": 1000 / rate}

    monkeypatch.setattr(compiled, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["compiled", "--rounds", "1", "--out", str(tmp_path)])
    compiled.main()
    assert asked == [
        (name, algorithm, name == "compiled")
        for algorithm in ("dqn", "sac")
        for name in ("ours", "compiled")
    ]
    assert "1.50" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "compiled.json").read_text())["results"]) == {"dqn", "sac"}


def test_halfcheetah_draws_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str, _: object, *given: Any, algorithm: str) -> dict[str, Any]:
        seed = given[-1]
        score = (4000.0 if name == "ours" else 3000.0) + seed
        episodes = [[1000 * (i + 1), score * i / 5] for i in range(6)]
        return {"episodes": episodes, "evaluation_mean": score, "seconds": 10.0, "seed": seed}

    monkeypatch.setattr(halfcheetah, "measure", measure)
    given = ["--out", str(tmp_path / "out"), "--figures", str(tmp_path / "figures")]
    given += ["--peers-python", sys.executable]
    monkeypatch.setattr(sys, "argv", ["halfcheetah", *given])
    halfcheetah.main()
    assert "ok (>= 3001)" in capsys.readouterr().out
    assert (tmp_path / "figures" / "halfcheetah.png").read_bytes().startswith(b"\x89PNG")
    for folder in ("out", "figures"):
        record = json.loads((tmp_path / folder / "halfcheetah.json").read_text())
        assert [run["seed"] for run in record["results"]["sb3"]] == [0, 1, 2]


def test_slots_are_for_dqn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["throughput", "--algorithm", "sac", "--slots", "8"])
    with pytest.raises(SystemExit, match="2"):
        throughput.main()


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
    scripts = {scripts[name][0] for scripts in gather.SCRIPTS.values() for name in gather.PEERS}
    paths = [str(gather.HERE / script) for script in scripts]
    assert len(paths) == 4
    subprocess.run([sys.executable, "-m", "py_compile", *paths], check=True)
