"""An environment that fails when a file says so, in a module that Ray's workers can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.config.config import DEFAULT_MODULE_ID


class FailingEnv(gym.Env):
    """Episodes of 10 steps of reward 1, observed as a random number of each reset.

    Args:
        env_config: `folder`: where a test puts files named `<how>-<worker index>` to make the
            environments of that env runner fail: once, or always if it holds a text. `raise`,
            `hang`, `kill`.
    """

    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, env_config: Any):
        self.index, self.folder = env_config.worker_index, Path(env_config["folder"])
        self.task = 0

    def set_task(self, task: int) -> None:
        self.task = task

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.start = 0, self.np_random.uniform(-1, 1)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        for how in ("raise", "hang", "kill"):
            self._fail_if_told(how)
        self.t += 1
        return self._obs(), 1.0, self.t == 10, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.start, self.t], np.float32)

    def _fail_if_told(self, how: str) -> None:
        order = self.folder / f"{how}-{self.index}"
        if not order.exists():
            return
        if not order.stat().st_size:
            order.unlink()
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hang":
            time.sleep(3600)
        raise ValueError(f"env runner {self.index} is out of luck")


def next_task(result: dict[str, Any], env: Any, env_context: Any) -> int:
    """The iteration, and the env runner."""
    return 100 * int(result["training_iteration"]) + env_context.worker_index


def rows_of(runner: Any) -> np.ndarray:
    """Return the observations that an env runner acts on next."""
    rows: np.ndarray = runner.recorders[DEFAULT_MODULE_ID].actor.rows.copy()
    return rows
