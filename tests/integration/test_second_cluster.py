"""Algorithms keep their names when one process starts a second cluster, as notebooks do."""

import ray
from ray.tune.registry import get_trainable_cls

from trainables import PPO
from trainables.registry import get_algorithm


def test_names_outlive_a_cluster() -> None:
    get_algorithm("PPO")
    for _ in range(2):
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
        try:
            assert get_trainable_cls("PPO") is PPO
        finally:
            ray.shutdown()
