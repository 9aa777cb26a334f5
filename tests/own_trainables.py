"""Trainables as a newcomer brings them: plain classes and functions of Ray Tune's own kinds."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ray import tune


class Bare(tune.Trainable):
    """The least that Tune asks for: no reset_config, no checkpoints."""

    def setup(self, config: dict[str, Any]) -> None:
        self.x, self.count = config["x"], 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"loss": (self.x - 0.3) ** 2 + 1 / self.count, "worker": os.getpid()}


class Quadratic(Bare):
    """No reset_config."""

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "state.json").write_text(json.dumps({"count": self.count}))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = json.loads(Path(checkpoint, "state.json").read_text())["count"]


class Refuses(Quadratic):
    """Says of no configuration that it can become it."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return False


class Resets(Quadratic):
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True


class DiesInReset(Quadratic):
    """Its process dies when it is to become another trial."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        os._exit(1)


def plain(config: dict[str, Any]) -> None:
    """Reports without checkpoints, and returns."""
    for number in range(1, config.get("rounds", 4) + 1):
        time.sleep(config.get("seconds", 0.0))
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / number, "worker": os.getpid()})


def saving(config: dict[str, Any]) -> None:
    """Reports a checkpoint with every result, and goes on from one."""
    done, checkpoint = 0, tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            done = json.loads(Path(folder, "state.json").read_text())["done"]
    for number in range(done + 1, config.get("rounds", 4) + 1):
        time.sleep(config.get("seconds", 0.0))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps({"done": number}))
            metrics = {"loss": (config["x"] - 0.3) ** 2 + 1 / number, "from": done}
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


def _failing(config: dict[str, Any]) -> None:
    raise RuntimeError("the function fails as asked")


failing = _failing
two_cpus = tune.with_resources(lambda config: plain(config), {"cpu": 2})
by_config = tune.with_resources(
    lambda config: plain(config), lambda config: tune.PlacementGroupFactory([{"CPU": config["n"]}])
)


def two_arguments(config: dict[str, Any], reporter: Any) -> None:
    """As Tune's functions were before 2020."""
