"""A fake environment over any spaces, which checks every action that it is given."""

from __future__ import annotations

import copy
import math
from typing import Any

import gymnasium as gym
import numpy as np

MASK = "action_mask"


class RandomEnv(gym.Env):
    """Random observations and rewards; episodes of 1 to 6 steps, terminated or truncated.

    If the observation space has an `action_mask`, it allows at least one value of each part of the
    action, which is Discrete, MultiDiscrete or MultiBinary, and no other may be taken.
    """

    def __init__(self, observation_space: gym.Space, action_space: gym.Space):
        # Spaces have random streams of their own, which slots must not share.
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space = copy.deepcopy(action_space)
        self._has_mask = MASK in getattr(observation_space, "spaces", ())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps_left = int(self.np_random.integers(1, 7))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        assert not self._has_mask or self._allows(action), f"{action!r} is masked: {self._mask}"
        self._steps_left -= 1
        ended, by_time = self._steps_left == 0, self.np_random.random() < 0.5
        reward = float(self.np_random.normal())
        return self._observation(), reward, ended and not by_time, ended and by_time, {}

    def allowed_action(self) -> Any:
        """Return a random action that may be taken now."""
        if not self._has_mask:
            return self.action_space.sample()
        values = np.array([self.np_random.choice(np.flatnonzero(part)) for part in self._mask])
        values += np.ravel(getattr(self.action_space, "start", 0))
        like = self.action_space.sample()
        return values.astype(like.dtype).reshape(np.shape(like))[()]

    def _observation(self) -> Any:
        obs = self.observation_space.sample()
        if self._has_mask:
            counts = choices(self.action_space)
            self._mask = [self.np_random.random(count) < 0.5 for count in counts]
            for part in self._mask:
                part[self.np_random.integers(len(part))] = True
            obs[MASK] = np.concatenate(self._mask).astype(np.int8)
        return obs

    def _allows(self, action: Any) -> bool:
        values = np.ravel(action) - np.ravel(getattr(self.action_space, "start", 0))
        return all(part[value] for part, value in zip(self._mask, values, strict=True))


def choices(action_space: gym.Space) -> list[int]:
    """How many values each part of an action has; [] unless a flat mask can be made for it."""
    if isinstance(action_space, gym.spaces.Discrete):
        return [int(action_space.n)]
    if isinstance(action_space, gym.spaces.MultiDiscrete):
        return [int(n) for n in action_space.nvec.ravel()]
    if isinstance(action_space, gym.spaces.MultiBinary):
        return [2] * math.prod(action_space.shape)
    return []


def with_mask(observation_space: gym.Space, action_space: gym.Space) -> gym.Space:
    """The observation beside a mask of the actions; as it is where actions have none."""
    counts = choices(action_space)
    if not counts:
        return observation_space
    mask = gym.spaces.MultiBinary(sum(counts))
    return gym.spaces.Dict({"obs": observation_space, MASK: mask})
