"""What befalls trials that share processes, and who they are, as specs of tests name it."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray import tune

from experiments.benchmarks.scripted import Scripted
from trainables import PPO, PPOConfig
from trainables.core.config.settings import setting


class _Signals(tune.Callback):
    """Sends a signal when a trial gets so far for the first time.

    Args:
        at: The iteration.
    """

    def __init__(self, at: int):
        self.at: int | None = at

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if result["training_iteration"] == self.at:
            self.at = None
            self.send(result)

    def send(self, result: dict[str, Any]) -> None:
        raise NotImplementedError


class Kills(_Signals):
    """Kills the process of the first trial that gets so far."""

    def send(self, result: dict[str, Any]) -> None:
        os.kill(result["pid"], signal.SIGKILL)


class Interrupts(_Signals):
    """Presses Ctrl-C, and remembers in a resumed sweep that it has."""

    def send(self, result: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def get_state(self) -> dict[str, Any]:
        return {"at": self.at}

    def set_state(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


@dataclass
class FailsConfig(PPOConfig):
    fail_at: int = setting(0, "debugging", "iteration that raises, of the seed 1; 0 is none", ge=0)


class Fails(PPO):
    config_class = FailsConfig

    def training_step(self) -> dict[str, float]:
        if self.config.seed == 1 and self.iteration + 1 == self.config.fail_at:  # type: ignore[attr-defined]
            raise ValueError("no more of it")
        return super().training_step()


class Weighed(Scripted):
    """Says what its weights were before and after each iteration."""

    def train(self) -> dict[str, Any]:
        before = self._weight()
        return {**super().train(), "before": before, "after": self._weight()}

    def _weight(self) -> float:
        parameters = self.get_policy().module.parameters()
        return float(sum(p.detach().double().sum() for p in parameters))


class Order(tune.Callback):
    """Writes down which results the sweep got, in their order.

    Args:
        file: That gets a line of each.
    """

    def __init__(self, file: str):
        self.file = Path(file)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        names = ("episode_return_mean", "num_env_steps_sampled_lifetime", "done", "pruned", "host")
        row = {"trial": trial.trial_id, **{name: result.get(name) for name in names}}
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")


class Hangs(gym.Env):
    """Episodes of 10 steps; a step waits while there is a file.

    Args:
        file: Its path.
    """

    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, file: str = "none"):
        self.file, self.t = Path(file), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        while self.file.exists():
            time.sleep(0.05)
        self.t += 1
        return np.full(2, self.t, np.float32), 1.0, self.t == 10, False, {}
