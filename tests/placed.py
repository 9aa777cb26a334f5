"""Trainables that report on which nodes their processes are."""

from __future__ import annotations

from typing import Any

import ray

from trainables import PPO
from trainables.core.config.config import AlgorithmConfig
from trainables.runtime.sampling.env_runner import EnvRunner

PLACES = "places"


def here(_: EnvRunner) -> str:
    """The node of an env runner."""
    return str(ray.get_runtime_context().get_node_id())


class Placed(PPO):
    """PPO whose results say where its own process is, then its env runners."""

    def step(self) -> dict[str, Any]:
        nodes = [ray.get_runtime_context().get_node_id()]
        nodes += self.env_runners.foreach_env_runner(here, local_env_runner=False)
        return {**super().step(), PLACES: nodes}


class AsksForFakeGPUs(PPO):
    """Asks for the GPUs that it fakes: of a cluster that only says that it has some."""

    @classmethod
    def _config_object(cls, config: AlgorithmConfig | dict[str, Any]) -> AlgorithmConfig:
        found = super()._config_object(config).copy(copy_frozen=False)
        found.fake_gpus = False
        return found


class PlacedOnFakeGPU(AsksForFakeGPUs, Placed):
    """`Placed`, on a GPU that a cluster says it has."""
