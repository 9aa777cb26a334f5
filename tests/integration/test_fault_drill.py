"""A short fault drill; `experiments.benchmarks.fault_drill` is the long one."""

from __future__ import annotations

import pytest

from experiments.benchmarks.fault_drill import drill

REAL_WORKERS = True  # the test is of processes


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("ray_here")
@pytest.mark.parametrize("algorithm", ["PPO", "PPO_agents", "PPO_league", "IMPALA", "APPO"])
def test_training_survives_the_death_of_env_runners(algorithm: str) -> None:
    report = drill(
        algorithm,
        {"num_env_runners": 2, "num_cpus_per_env_runner": 1},
        seconds=12.0,
        every_s=4.0,
        target=60.0,
        deadline_s=300.0,
    )
    assert not report.problems, "\n".join(report.problems)
    assert len(report.kills) >= 2
    assert report.num_restarts >= 1
    assert report.trained_steps > 0
