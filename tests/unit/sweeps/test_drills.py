"""What drills and soaks conclude from what they see."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from experiments.benchmarks.agents_drill import LEAGUE_SETTINGS, AgentsLedger
from experiments.benchmarks.fault_drill import Ledger
from experiments.benchmarks.memory_soak import slope
from experiments.benchmarks.processes import cpu_seconds, descendants, memory
from experiments.benchmarks.scaling import modelled
from trainables.core.data.batch import Rollout
from trainables.ppo import PPO


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    with PPO(config={"env": "CartPole-v1", "num_envs_per_env_runner": 2}) as algo:
        runner = algo.env_runners.local_worker()
        assert runner is not None
        return [runner.sample(30)[0]["default_policy"] for _ in range(3)]


def seen(rollouts: list[Rollout]) -> Ledger:
    ledger = Ledger()
    for rollout in rollouts:
        ledger.add(rollout)
    return ledger


def test_a_ledger_of_whole_runs_finds_nothing(rollouts: list[Rollout]) -> None:
    ledger = seen(rollouts)
    assert not ledger.problems
    assert ledger.num_starts == 2
    assert ledger.num_env_steps == sum(rollout.num_env_steps for rollout in rollouts)


def test_a_ledger_finds_what_is_lost_or_seen_twice(rollouts: list[Rollout]) -> None:
    assert len(seen([rollouts[0], rollouts[2]]).problems) == 2  # of both slots
    assert len(seen([*rollouts, rollouts[1]]).problems) == 2
    assert len(seen([rollouts[0], rollouts[0]]).problems) == 2


def test_a_ledger_of_agents_follows_them_from_policy_to_policy() -> None:
    """Of a league, in which an agent's column rests while a copy plays for it."""
    config = {**LEAGUE_SETTINGS, "num_envs_per_env_runner": 4, "seed": 0}
    with PPO(config=config) as algo:
        runner = algo.env_runners.local_worker()
        assert runner is not None
        algo.policy_changes.map_agents(
            [{"policies": {"*": "main"}}, {"policies": {"*": "main_v0"}}]
        )
        samples = [runner.sample(40) for _ in range(6)]

    def problems(*numbers: int) -> int:
        ledger = AgentsLedger()
        for number in numbers:
            ledger.arrived(*samples[number])
        return len(ledger.problems)

    rests = [~rollouts["main"].valid.any(0) for rollouts, _ in samples if "main" in rollouts]
    assert any(resting.any() for resting in rests)
    assert problems(*range(6)) == 0
    assert problems(0, 1, 3) and problems(0, 1, 1) and problems(0, 1, 2, 3, 4, 5, 2)


def test_processes_below_this_one() -> None:
    code = "import time; data = bytearray(50_000_000); print(flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert descendants()[child.pid] == sys.executable
        held = memory(child.pid)
        assert 50 < held["own"] <= held["proportional"] <= held["resident"] < 200
        assert cpu_seconds(child.pid) < 60
    finally:
        child.kill()
    # It has ended, but nobody has asked how: it is no process any more.
    child.stdout.read()
    child.stdout.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in descendants() and memory(child.pid) == {}
    child.wait()


def test_a_slope_is_per_five_minutes_after_the_warm_up() -> None:
    times = np.arange(0, 1200, 5.0)
    values = 100 + 50 * np.minimum(times, 300) / 300 + 2 * np.maximum(times - 300, 0) / 300
    points = np.stack([times, values], 1).tolist()
    assert slope(points, 300) == pytest.approx(2)
    # A single step is no growth, several are.
    assert slope([[t, float(t > 450)] for t in times], 300) == 0
    assert slope([[t, float(t // 150)] for t in times], 300) == pytest.approx(2, abs=0.1)


def test_a_model_of_more_runners() -> None:
    results = [{"env_runner_cpu_us": 40.0, "driver_cpu_us": 20.0}]
    assert modelled("impala", results, 1, cores=8) == pytest.approx(
        25_000
    )  # sampling sets the pace
    assert modelled("impala", results, 4, cores=8) == pytest.approx(50_000)  # learning does
    assert modelled("impala", results, 4, cores=2) == pytest.approx(2e6 / 60)  # the machine does
    assert modelled("ppo", results, 2, cores=8) == pytest.approx(25_000)  # 20 and 20
