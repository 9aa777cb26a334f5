"""An environment and an algorithm of one's own, whose module registers the environment."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from trainables import PPO


class Corridor(gym.Env[np.ndarray, np.int64]):
    observation_space: ClassVar[gym.Space[Any]] = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space: ClassVar[gym.Space[Any]] = gym.spaces.Discrete(2)

    def __init__(self, length: int = 20, folder: str = "") -> None:
        self.length, self.folder = length, folder

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(2, np.float32), float(action), self.steps >= self.length, False, {}


gym.register("OwnCorridor-v0", entry_point=Corridor)


class OwnPPO(PPO):
    """PPO, from the module that registers the environment."""
