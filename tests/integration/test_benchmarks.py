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

from experiments.benchmarks import (
    compiled,
    evaluation_cost,
    gather,
    halfcheetah,
    many_policies,
    memory_soak,
    multi_agent_speed,
    recurrent,
    scaling,
    throughput,
    time_to_score,
    tuned,
)
from experiments.benchmarks.off_policy import Recorded, greedy_returns
from experiments.benchmarks.trial_overhead import overheads
from experiments.sweep.load import load_spec


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


def test_dqn_and_the_bare_loop_in_turns() -> None:
    given = ["--pairs", "2", "--steps", "40", "--warmup", "1050"]
    done = subprocess.run(
        [sys.executable, str(gather.HERE / "dqn_pairs.py"), *given],
        check=True,
        capture_output=True,
        text=True,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert len(result["ratios"]) == 2
    assert 0.1 < result["ratio_mean"] < 10 and 0 < result["ours_cpu_ms"] < 100


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


def test_fewer_seeds_of_peers_than_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str, _: object, *given: object, algorithm: str) -> dict[str, Any]:
        assert algorithm == "impala" and "--target=450.0" in given
        seconds = {"ours": 10.0, "rllib": 300.5}[name]
        result = {"seconds": seconds, "setup_seconds": 1.0, "env_steps": 9, "return": 60.0}
        return {**result, "reached": name == "ours"}

    monkeypatch.setattr(time_to_score, "measure", measure)
    given = ["--algorithm", "impala", "--peer-seeds", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["time_to_score", *given, "--peers-python", sys.executable])
    time_to_score.main()
    shown = capsys.readouterr().out
    assert "2/2" in shown and "30.00" in shown and "ok (>= 4)" in shown
    results = json.loads((tmp_path / "time_to_score_impala.json").read_text())["results"]
    assert {name: len(runs) for name, runs in results.items()} == {"ours": 5, "rllib": 2}
    assert results["rllib"][0]["charged_seconds"] == 300.0


def test_scaling_shows_measurement_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str, _: object, *given: Any, algorithm: str) -> dict[str, Any]:
        count = given[given.index("--env-runners") + 1]
        costs = {"driver_cpu_us": 25.0, "env_runner_cpu_us": 50.0, "learn_us": 20.0}
        return {"env_steps_per_second": 10_000.0 * (1 + count), **costs}

    monkeypatch.setattr(scaling, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["scaling", "--rounds", "1", "--out", str(tmp_path)])
    scaling.main()
    assert "30,000" in capsys.readouterr().out
    record = json.loads((tmp_path / "scaling.json").read_text())["results"]
    assert set(record["measured"]["ppo"]) == {"0", "1", "2"}
    assert record["modelled"]["impala"]["16"] == 40_000  # learning sets the pace
    assert record["modelled"]["ppo"]["2"] == 20_000


def test_the_cost_of_an_evaluation_is_of_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Rounds differ much more than an evaluation costs.
    def measure(name: str, _: object, *given: Any, algorithm: str) -> dict[str, Any]:
        assert (name == "evaluating") == ("--evaluate" in given)
        speed = 1000.0 * (1 + given[given.index("--seed") + 1])
        return {
            "env_steps_per_second": speed * (0.95 if name == "evaluating" else 1),
            "driver_cpu_us": 40.0,
        }

    monkeypatch.setattr(evaluation_cost, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["evaluation_cost", "--out", str(tmp_path)])
    evaluation_cost.main()
    assert "5.0%" in (shown := capsys.readouterr().out) and "ok (<= 0.1)" in shown


def test_memory_is_drawn(tmp_path: Path) -> None:
    points = [[float(t), 100.0 + t / 60] for t in range(0, 1200, 5)]
    samples = {"object store": points, "driver, own": points, "driver, resident": points}
    slopes = {name: memory_soak.slope(points, 300) for name in samples}
    memory_soak.draw(samples, slopes, 5.0, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 10_000


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


def test_speed_of_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--out", str(tmp_path), "speed", "--rounds", "1", "--steps", "1024"]
    monkeypatch.setattr(sys, "argv", ["recurrent", *given])
    recurrent.main()
    assert "<= 3" in capsys.readouterr().out
    record = json.loads((tmp_path / "recurrent_speed.json").read_text())
    assert set(record["results"]) == set(recurrent.NETWORKS)
    assert all(result["env_steps"] >= 1024 for [result] in record["results"].values())


def test_scores_of_memories(tmp_path: Path) -> None:
    result = recurrent.shown_run(("LSTM", 0, 2048, recurrent.TRIALS[0]), "trial")
    assert result["network"] == "LSTM" and result["curve"][-1][0] >= 2048
    assert 8 <= result["greedy"] <= 500
    recurrent.draw({"LSTM": [result, result]}, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").stat().st_size > 10_000


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
    scripts = {of[name][0] for of in gather.SCRIPTS.values() for name in gather.PEERS if name in of}
    paths = [str(gather.HERE / script) for script in scripts]
    assert len(paths) == 11
    subprocess.run([sys.executable, "-m", "py_compile", *paths], check=True)


def test_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each variant and seed once, however often the driver is started."""
    variants = ["--variant", "--variant", "config.advantage_std_floor=0"]
    given = ["floor", "--specs", "tuned/ppo/cartpole@2000", "--seeds", "3", *variants]
    given += ["--episodes", "2", "--figures", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["tuned", *given])
    for _ in range(2):
        tuned.main()
        shown = capsys.readouterr().out
        assert "as shipped" in shown and "advantage_std_floor=0" in shown
        runs = json.loads((tmp_path / "floor.json").read_text())["results"]
        assert [run["changes"] for run in runs] == [[], ["config.advantage_std_floor=0"]]
    for run in runs:
        steps, last = run["curve"][-1]
        assert steps >= 2000 and last == run["return"]
        seconds, last = run["by_seconds"][-1]
        assert 0 < seconds <= run["seconds"] and last == run["return"]
        assert run["advantage_std"][0][1] > 0
    assert (tmp_path / "floor.png").stat().st_size > 10_000


def test_speed_with_several_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--rounds", "1", "--steps", "2048", "--warmup", "0", "--slots", "8"]
    monkeypatch.setattr(sys, "argv", ["multi_agent_speed", *given, "--out", str(tmp_path)])
    multi_agent_speed.main()
    assert "native" in capsys.readouterr().out
    [file] = tmp_path.glob("*.json")
    results = json.loads(file.read_text())["results"]["8"]
    assert set(results) == {"ours", "native"}  # no peers without their interpreter
    for [result] in results.values():
        assert 1 < result["agent_steps"] / result["env_steps"] <= 4


def test_memory_of_many_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--policies", "6", "--capacities", "2", "--iterations", "2"]
    monkeypatch.setattr(sys, "argv", ["many_policies", *given, "--figures", str(tmp_path)])
    many_policies.main()
    assert "6 policies" in capsys.readouterr().out
    [measured] = json.loads((tmp_path / "many_policies.json").read_text())["results"].values()
    assert len(measured["megabytes"]) == 2 and measured["peak"] >= max(measured["megabytes"])


def test_trial_batching_measures_and_draws(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "experiments.benchmarks.trial_batching",
        "--out",
        str(tmp_path),
    ]
    options = ["--members", "1", "2", "--rounds", "1", "--iterations", "1"]
    shown = subprocess.run([*command, "cost", *options], capture_output=True, text=True, check=True)
    assert "times as fast" in shown.stdout
    kept = json.loads((tmp_path / "trial_batching_cost.json").read_text())
    assert set(kept["results"]) == {"1", "2"}
    assert (tmp_path / "trial_batching.png").stat().st_size > 10_000
