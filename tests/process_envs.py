"""Environments for processes of their own; importing them takes neither torch nor Ray."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.runtime.envs.curriculum import TaskSettableEnv
from trainables.runtime.envs.slots import EnvContext


class ClockEnv(TaskSettableEnv):
    """An observation is (slot, episode, step, process); a step of slot n takes `sleep[n]`."""

    observation_space = gym.spaces.Box(-1, 2**24, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, env_config: EnvContext):
        sleeps = env_config.get("sleep", [0.0])
        self.slot, self.config = env_config.vector_index, env_config
        self.sleep = sleeps[self.slot % len(sleeps)]
        self.length = env_config.get("lengths", [3, 4, 5])[self.slot % 3]
        assert env_config.remote or env_config.num_workers  # the driver only reads the spaces
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        time.sleep(self.sleep)
        what = self.config.get("breaks", {}).get(self.slot)
        if what is not None and (self.episode, self.t) == (0, 1) and not self.get_task():
            self._break(what)
        self.t += 1
        return self._obs(), float(self.t), self.t == self.length, False, {"t": self.t}

    def _break(self, what: str) -> None:
        if what == "raise":
            raise OSError("lost")
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    def _obs(self) -> np.ndarray:
        process = os.getpid() if self.config.get("process") else 0
        return np.array([self.slot, self.episode, self.t, process], np.float32)


def next_task(result: dict[str, Any], env: Any, context: EnvContext) -> list[int]:
    return [int(result["training_iteration"]), context.vector_index]
