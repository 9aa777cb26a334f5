"""Env runners that explore by constants of their own, each with several environments."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import RecordsExploration, settings_of

from trainables.core.config.exploration import per_worker_mean, per_worker_value
from trainables.registry import get_algorithm

pytestmark = pytest.mark.usefixtures("ray_here")


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("DQN", "PerWorkerEpsilonGreedy", "epsilon"),
        ("SAC", "PerWorkerGaussianNoise", "scale"),
        pytest.param("SAC", "PerWorkerOrnsteinUhlenbeckNoise", "scale", marks=pytest.mark.full),
    ],
)
def test_each_has_its_own(name: str, kind: str, value: str) -> None:
    more: dict[str, Any] = {"env": "Pendulum-v1"} if name == "SAC" else {"noisy": False}
    more["env_runner_cls"] = RecordsExploration
    settings = settings_of(
        name,
        num_env_runners=2,
        num_cpus_per_env_runner=0.5,
        exploration_config={"type": kind},
        **more,
    )
    with get_algorithm(name)(config=settings) as algo:
        result = algo.train()
        found = algo.env_runners.foreach_env_runner(
            lambda runner: runner.explored_by, local_env_runner=False
        )
        assert [values[value] for values in found] == [
            per_worker_value(1, 2),
            per_worker_value(2, 2),
        ]
        assert result[f"exploration/{value}"] == per_worker_mean(2)
