"""An environment with a mistake of one's choice, for the checks before a sweep."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np

NAME = "broken_envs:BrokenEnv"


class BrokenEnv(gym.Env):
    """Episodes that never end, observed as zeros.

    Args:
        how: What is wrong with it.
        made: A file that gets a line for each environment that is made.
    """

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, how: str = "nothing", made: str = os.devnull):
        self.how = how
        with open(made, "a") as file:
            file.write(f"{how} {os.getpid()}\n")
        if how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            sys.exit(3)
        if how == "hang":
            time.sleep(3600)
        if how == "make":
            raise KeyError("map")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.how == "reset":
            raise OSError("no connection")
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        reward = float("nan") if self.how == "reward" else 1.0
        more = () if self.how == "tuple" else (False,)
        return self._obs(), reward, False, *more, {}

    def _obs(self) -> np.ndarray:
        if self.how == "dtype":
            return np.zeros(2)
        if self.how == "shape":
            return np.zeros(3, np.float32)
        return np.full(2, 5 if self.how == "range" else 0, np.float32)


class Unseeded(BrokenEnv):
    def reset(self) -> tuple[Any, dict[str, Any]]:  # type: ignore[override]
        return self._obs(), {}
