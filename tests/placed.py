"""A trainable that reports on which nodes its processes are."""

from __future__ import annotations

from typing import Any

import ray

from trainables import PPO
from trainables.runtime.env_runner import EnvRunner

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
