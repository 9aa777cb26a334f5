"""The benchmarks start, measure and report; the peers are measured by hand."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
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

Drive = Callable[..., str]


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Drive:
    """Run a benchmark with arguments of its command line; what it shows."""
    monkeypatch.setattr(gather.console, "width", 120)

    def driven(module: ModuleType, *given: object) -> str:
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, given)])
        module.main()
        return capsys.readouterr().out

    return driven


def kept(file: Path) -> Any:
    return json.loads(file.read_text())["results"]


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_throughput(tmp_path: Path, drive: Drive) -> None:
    given = ("--rounds", 1, "--steps", 2048, "--warmup", 0)
    shown = drive(throughput, *given, "--out", tmp_path)
    assert "Tunescape" in shown and "bare loop" in shown and ">= 0.85" in shown
    results = kept(tmp_path / "throughput.json")
    assert set(results) == {"ours", "bare"}  # no peers without their interpreter
    for name, [result] in results.items():
        assert result["contestant"] == name
        # Rows that only reset are no steps.
        assert 1800 < result["env_steps"] < 2 * 2048
        assert result["env_steps_per_second"] == pytest.approx(
            result["env_steps"] / result["seconds"]
        )


@pytest.mark.full("test_scaling_shows_measurement_and_model")
@pytest.mark.parametrize(
    ("algorithm", "more", "file"),
    [("dqn", ["--slots", "8"], "throughput_dqn_8_slots"), ("sac", [], "throughput_sac")],
)
def test_off_policy_throughput(
    algorithm: str, more: list[str], file: str, tmp_path: Path, drive: Drive
) -> None:
    given = ("--rounds", 1, "--steps", 80, "--warmup", 1050, "--out", tmp_path, *more)
    shown = drive(throughput, "--algorithm", algorithm, *given)
    assert "updates/s" in shown and ">= 0.85" in shown
    results = kept(tmp_path / f"{file}.json")
    assert set(results) == {"ours", "bare"}
    for name, [result] in results.items():
        assert (result["contestant"], result["algorithm"]) == (name, algorithm)
        assert 80 <= result["env_steps"] < 300
        # The equal settings: one for each step, whatever the number of slots.
        assert result["updates"] == result["env_steps"]
        assert result["updates_per_second"] == pytest.approx(result["updates"] / result["seconds"])
        assert 0 < result["update_ms"] < result["seconds"] * 1000 / result["updates"]


@pytest.mark.full("test_scaling_shows_measurement_and_model")
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


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_a_missed_score_counts_with_the_cap(tmp_path: Path, drive: Drive) -> None:
    given = ("--only", "bare", "--seeds", 1, "--cap", 0.2, "--out", tmp_path)
    shown = drive(time_to_score, "--algorithm", "sac", *given)
    record = json.loads((tmp_path / "time_to_score_sac.json").read_text())
    assert record["settings"]["target"] == -250.0
    [result] = record["results"]["bare"]
    assert not result["reached"]
    assert result["charged_seconds"] == 0.2
    assert "1/1" in shown


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


@pytest.mark.full("test_scaling_shows_measurement_and_model")
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def measure(name: str, _: object, *given: object, algorithm: str) -> dict[str, Any]:
        asked.append((name, algorithm, "--compile" in given))
        rate = 300.0 if name == "compiled" else 200.0
        return {"updates_per_second": rate, "update_ms": 1000 / rate}

    monkeypatch.setattr(compiled, "measure", measure)
    shown = drive(compiled, "--rounds", 1, "--out", tmp_path)
    assert asked == [
        (name, algorithm, name == "compiled")
        for algorithm in ("dqn", "sac")
        for name in ("ours", "compiled")
    ]
    assert "1.50" in shown
    assert set(kept(tmp_path / "compiled.json")) == {"dqn", "sac"}


def test_fewer_seeds_of_peers_than_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive
) -> None:
    def measure(name: str, _: object, *given: object, algorithm: str) -> dict[str, Any]:
        assert algorithm == "impala" and "--target=450.0" in given
        seconds = {"ours": 10.0, "rllib": 300.5}[name]
        result = {"seconds": seconds, "setup_seconds": 1.0, "env_steps": 9, "return": 60.0}
        return {**result, "reached": name == "ours"}

    monkeypatch.setattr(time_to_score, "measure", measure)
    given = ("--algorithm", "impala", "--peer-seeds", 2, "--peers-python", sys.executable)
    shown = drive(time_to_score, *given, "--out", tmp_path)
    assert "2/2" in shown and "30.00" in shown and "ok (>= 4)" in shown
    results = kept(tmp_path / "time_to_score_impala.json")
    assert {name: len(runs) for name, runs in results.items()} == {"ours": 5, "rllib": 2}
    assert results["rllib"][0]["charged_seconds"] == 300.0


def test_scaling_shows_measurement_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive
) -> None:
    def measure(name: str, _: object, *given: Any, algorithm: str) -> dict[str, Any]:
        count = given[given.index("--env-runners") + 1]
        costs = {"driver_cpu_us": 25.0, "env_runner_cpu_us": 50.0, "learn_us": 20.0}
        return {"env_steps_per_second": 10_000.0 * (1 + count), **costs}

    monkeypatch.setattr(scaling, "measure", measure)
    assert "30,000" in drive(scaling, "--rounds", 1, "--out", tmp_path)
    record = kept(tmp_path / "scaling.json")
    assert set(record["measured"]["ppo"]) == {"0", "1", "2"}
    assert record["modelled"]["impala"]["16"] == 40_000  # learning sets the pace
    assert record["modelled"]["ppo"]["2"] == 20_000


def test_the_cost_of_an_evaluation_is_of_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive
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
    shown = drive(evaluation_cost, "--out", tmp_path)
    assert "5.0%" in shown and "ok (<= 0.1)" in shown


def test_memory_is_drawn(tmp_path: Path) -> None:
    points = [[float(t), 100.0 + t / 60] for t in range(0, 1200, 5)]
    samples = {"object store": points, "driver, own": points, "driver, resident": points}
    slopes = {name: memory_soak.slope(points, 300) for name in samples}
    memory_soak.draw(samples, slopes, 5.0, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 10_000


def test_halfcheetah_draws_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive
) -> None:
    def measure(name: str, _: object, *given: Any, algorithm: str) -> dict[str, Any]:
        seed = given[-1]
        score = (4000.0 if name == "ours" else 3000.0) + seed
        episodes = [[1000 * (i + 1), score * i / 5] for i in range(6)]
        return {"episodes": episodes, "evaluation_mean": score, "seconds": 10.0, "seed": seed}

    monkeypatch.setattr(halfcheetah, "measure", measure)
    given = ("--out", tmp_path / "out", "--figures", tmp_path / "figures")
    shown = drive(halfcheetah, *given, "--peers-python", sys.executable)
    assert "ok (>= 3001)" in shown
    assert (tmp_path / "figures" / "halfcheetah.png").read_bytes().startswith(b"\x89PNG")
    for folder in ("out", "figures"):
        results = kept(tmp_path / folder / "halfcheetah.json")
        assert [run["seed"] for run in results["sb3"]] == [0, 1, 2]


def test_overheads_are_what_lies_between_results() -> None:
    # Results at 100 s, 101 s (trained 0.25 s) and 103 s (trained 1.5 s).
    ends = [(100.0, 9.0), (101.0, 0.25), (103.0, 1.5)]
    assert overheads(ends) == pytest.approx([0.75, 0.5])


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_speed_of_memories(tmp_path: Path, drive: Drive) -> None:
    shown = drive(recurrent, "--out", tmp_path, "speed", "--rounds", 1, "--steps", 1024)
    assert "<= 3" in shown
    results = kept(tmp_path / "recurrent_speed.json")
    assert set(results) == set(recurrent.NETWORKS)
    assert all(result["env_steps"] >= 1024 for [result] in results.values())


def test_scores_of_memories(tmp_path: Path) -> None:
    result = recurrent.shown_run(("LSTM", 0, 2048, recurrent.TRIALS[0]), "trial")
    assert result["network"] == "LSTM" and result["curve"][-1][0] >= 2048
    assert 8 <= result["greedy"] <= 500
    recurrent.draw({"LSTM": [result, result]}, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").stat().st_size > 10_000


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_a_contestant_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"bare loop gave no result \(exit code 2\)"):
        gather.measure("bare", None, "no-such-task")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--peers-python", "/nowhere/python"], "there is no such file"),
        (["--only", "rllib"], "give --peers-python"),
        (["--algorithm", "sac", "--slots", "8"], "2"),  # slots are for DQN
    ],
)
def test_what_cannot_be_measured_is_told(given: list[str], message: str, drive: Drive) -> None:
    with pytest.raises(SystemExit, match=message):
        drive(throughput, *given)


def test_the_peers_scripts_are_python() -> None:
    # They cannot be imported here: RLlib and Stable-Baselines3 are in their own environment.
    scripts = {of[name][0] for of in gather.SCRIPTS.values() for name in gather.PEERS if name in of}
    paths = [str(gather.HERE / script) for script in scripts]
    assert len(paths) == 11
    subprocess.run([sys.executable, "-m", "py_compile", *paths], check=True)


def test_tuned(tmp_path: Path, drive: Drive) -> None:
    """Each variant and seed once, however often the driver is started."""
    variants = ["--variant", "--variant", "config.advantage_std_floor=0"]
    given = ["floor", "--specs", "tuned/ppo/cartpole@2000", "--seeds", "3", *variants]
    given += ["--episodes", "2", "--figures", str(tmp_path)]
    for _ in range(2):
        shown = drive(tuned, *given)
        assert "as shipped" in shown and "advantage_std_floor=0" in shown
        runs = kept(tmp_path / "floor.json")
        assert [run["changes"] for run in runs] == [[], ["config.advantage_std_floor=0"]]
    for run in runs:
        steps, last = run["curve"][-1]
        assert steps >= 2000 and last == run["return"]
        seconds, last = run["by_seconds"][-1]
        assert 0 < seconds <= run["seconds"] and last == run["return"]
        assert run["advantage_std"][0][1] > 0
    assert (tmp_path / "floor.png").stat().st_size > 10_000


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_speed_with_several_agents(tmp_path: Path, drive: Drive) -> None:
    given = ("--rounds", 1, "--steps", 2048, "--warmup", 0, "--slots", 8)
    assert "native" in drive(multi_agent_speed, *given, "--out", tmp_path)
    [file] = tmp_path.glob("*.json")
    results = kept(file)["8"]
    assert set(results) == {"ours", "native"}  # no peers without their interpreter
    for [result] in results.values():
        assert 1 < result["agent_steps"] / result["env_steps"] <= 4


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_memory_of_many_policies(tmp_path: Path, drive: Drive) -> None:
    given = ("--policies", 6, "--capacities", 2, "--iterations", 2)
    assert "6 policies" in drive(many_policies, *given, "--figures", tmp_path)
    [measured] = kept(tmp_path / "many_policies.json").values()
    assert len(measured["megabytes"]) == 2 and measured["peak"] >= max(measured["megabytes"])


@pytest.mark.full("test_scaling_shows_measurement_and_model")
def test_trial_batching_measures_and_draws(tmp_path: Path, drive: Drive) -> None:
    from experiments.benchmarks import trial_batching

    given = ("cost", "--members", 1, 2, "--rounds", 1, "--iterations", 1)
    assert "times as fast" in drive(trial_batching, "--out", tmp_path, *given)
    assert set(kept(tmp_path / "trial_batching_cost.json")) == {"1", "2"}
    assert (tmp_path / "trial_batching.png").stat().st_size > 10_000


def test_small_sweeps(tmp_path: Path) -> None:
    """In a process of its own: it waits for all that its commands have started."""
    command = [sys.executable, "-m", "experiments.benchmarks.small_sweeps", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--only", "wrong setting", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [measured] = kept(tmp_path / "small_sweeps.json")["wrong setting"]["this"]
    assert 0 < measured["driver"] <= measured["all"] and measured["wall"] > 0
    assert "wrong setting" in done.stdout
