"""Fake environments whose observations say where they come from, so that every off-by-one shows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class EncodingVectorEnv(VectorEnv):
    """Slot n's episodes last `lengths[n]` steps; an observation is (slot, episode, step, is_final).

    The reward of a step is the number of the step that it leads to (1, 2, …), so a return is a
    triangular number. Episodes end by truncation in odd slots and by termination in even ones.
    """

    def __init__(self, num_envs: int = 3, lengths: tuple[int, ...] = (2, 3, 5)):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = gym.spaces.Box(-1, 1e6, (4,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.lengths = np.resize(lengths, num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.episode, self.t = np.zeros(self.num_envs), np.zeros(self.num_envs)
        self.done = np.zeros(self.num_envs, bool)
        return self._obs(), {}

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        resets = self.done
        self.episode = np.where(resets, self.episode + 1, self.episode)
        self.t = np.where(resets, 0, self.t + 1)
        self.done = (self.t == self.lengths) & ~resets
        odd = np.arange(self.num_envs) % 2 == 1
        rewards = np.where(resets, 0.0, self.t)
        return self._obs(), rewards, self.done & ~odd, self.done & odd, {}

    def _obs(self) -> np.ndarray:
        columns = [np.arange(self.num_envs), self.episode, self.t, self.done]
        return np.stack(columns, 1).astype(np.float32)


class EndlessEnv(gym.Env):
    """Reward 1 for ever, nothing to see; truncated every `horizon` steps, so V -> 1/(1-gamma)."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, horizon: int = 5, terminates: bool = False):
        self.horizon, self.terminates = horizon, terminates

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        ended = self.t >= self.horizon
        return np.ones(1, np.float32), 1.0, ended and self.terminates, ended, {}


class WalkEnv(gym.Env):
    """A random walk that can give and take its state; the time limit is a wrapper's."""

    observation_space = gym.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gym.spaces.Box(-3, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = float(self.np_random.normal())
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.position += float(action[0]) + float(self.np_random.normal())
        return self._obs(), -abs(self.position), abs(self.position) > 20, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.position, 1.0], np.float32)

    def get_state(self) -> dict[str, Any]:
        return {"position": self.position}

    def set_state(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def limited_walk(config: dict[str, Any]) -> gym.Env:
    """`WalkEnv` under gymnasium's TimeLimit."""
    return gym.wrappers.TimeLimit(WalkEnv(), max_episode_steps=17)


def discrete_walk(config: dict[str, Any]) -> gym.Env:
    """`limited_walk` with three actions."""
    return _with_three_actions(limited_walk(config))


def discrete_pendulum(config: dict[str, Any]) -> gym.Env:
    """Pendulum-v1 with three torques."""
    return _with_three_actions(gym.make("Pendulum-v1"))


def _with_three_actions(env: gym.Env) -> gym.Env:
    space = gym.spaces.Discrete(3)
    return gym.wrappers.TransformAction(env, lambda a: np.array([a - 1.0], np.float32), space)


class RecordEnv(gym.Env):
    """An image beside a vector, an angle and a number; episodes of 7 steps."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (10, 10, 1), np.uint8),
            "where": gym.spaces.Tuple(
                (gym.spaces.Box(-5, 5, (2,), np.float32), gym.spaces.Discrete(8))
            ),
        }
    )

    def __init__(self, discrete: bool = True):
        box = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space: gym.Space = gym.spaces.Discrete(3) if discrete else box

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.angle = 0, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        self.angle = self.angle + np.float32(0.1) * np.float32(np.mean(action))
        return self._obs(), float(self.angle[0]), self.t == 7, False, {}

    def _obs(self) -> dict[str, Any]:
        image = np.full((10, 10, 1), 30 * self.t, np.uint8)
        return {"image": image, "where": (self.angle, self.t)}

    def get_state(self) -> dict[str, Any]:
        return {"t": self.t, "angle": self.angle}

    def set_state(self, state: dict[str, Any]) -> None:
        self.t, self.angle = state["t"], np.array(state["angle"], np.float32)


class RecallEnv(gym.Env):
    """Reward 1 for the action that the first observation names, asked for `delay` steps later."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, delay: int = 3):
        self.delay = delay

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t, self.cue = 0, int(self.np_random.integers(2))
        return np.array([2 * self.cue - 1], np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        ended = self.t > self.delay
        reward = float(ended and int(action) == self.cue)
        return np.zeros(1, np.float32), reward, ended, False, {}


class CrashingEnv(gym.Env):
    """Episodes of 4 steps; reward and observation are the step; step 3 of episode 1 raises once."""

    observation_space = gym.spaces.Box(-10, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any):
        self.crashes = bool(config.get("crashes")) and config.vector_index == 0
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return np.zeros(1, np.float32), {"began": self.episode}

    def step(self, action: Any) -> Any:
        if self.crashes and self.episode == 1 and self.t == 2:
            raise RuntimeError("crash")
        self.t += 1
        return np.full(1, self.t, np.float32), float(self.t), self.t == 4, False, {"t": self.t}
