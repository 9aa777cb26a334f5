"""A slot whose numbers are not finite; importing it into a process takes neither torch nor Ray."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class BadSlotEnv(gym.Env):
    """Episodes of 4 steps; in slot 1 something is wrong from the second one on.

    Args:
        env_config: `what`: reward, where or first; `value`: instead; `at`: the step that is wrong;
            `reward`: of the others.
    """

    observation_space = gym.spaces.Dict(
        {
            "where": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "what": gym.spaces.Discrete(8),
            "bytes": gym.spaces.Box(0, 255, (2,), np.uint8),
        }
    )
    action_space = gym.spaces.Discrete(2)
    made = 0

    def __init__(self, env_config: Any):
        self.what, self.value = env_config.get("what"), env_config.get("value", np.nan)
        self.at, self.reward = env_config.get("at", 3), env_config.get("reward", 1e30)
        self.is_bad = env_config.vector_index == 1 and BadSlotEnv.made < 2
        BadSlotEnv.made += 1
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.episode = 0, self.episode + 1
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        reward = self.value if self._is_now("reward") else self.reward
        return self._obs(), reward, self.t == 4, False, {}

    def _is_now(self, what: str) -> bool:
        return self.is_bad and self.what == what and self.episode == 1 and self.t == self.at

    def _obs(self) -> dict[str, Any]:
        where = np.full(3, 1e30, np.float32)
        if self._is_now("where"):
            where[2] = self.value
        return {"where": where, "what": self.t, "bytes": np.zeros(2, np.uint8)}


class BadSlotEnvAtOnce(BadSlotEnv):
    """The first episode is the wrong one."""

    def __init__(self, env_config: Any):
        super().__init__(env_config)
        self.episode = 0
