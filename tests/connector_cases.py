"""Connectors as users write them, at the top of a module, for tests that find them by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables import Policy
from trainables.core.data.batch import Rollout


def halved(obs: Tensor, by: float = 2.0) -> Tensor:
    """The same space."""
    return obs / by


def first_two(obs: Tensor) -> Tensor:
    """Fewer elements."""
    return obs[:, :2]


def parts(obs: Tensor) -> dict[str, Tensor]:
    """A plain observation as a dict."""
    return {"low": obs[:, :1], "high": obs[:, 1:]}


class OnGrid:
    """Positions as grid cells: says what space it makes."""

    def __init__(self, cells: int):
        self.cells = cells

    def space(self, observation_space: gym.Space) -> gym.Space:
        assert observation_space.shape is not None
        return gym.spaces.MultiDiscrete([self.cells] * observation_space.shape[0])

    def __call__(self, obs: Tensor) -> Tensor:
        return (obs * self.cells).to(torch.int64).clamp(0, self.cells - 1)


def for_env(env: Any) -> Any:
    """A factory, as the reference has them."""
    width = env.observation_space.shape[0]
    return [lambda obs: obs / width, halved]


class Torques:
    """Five torques for a Box: another action space than the environment's."""

    def space(self, action_space: gym.Space) -> gym.Space:
        return gym.spaces.Discrete(5)

    def __call__(self, actions: np.ndarray) -> np.ndarray:
        return (actions[:, None] - 2.0).astype(np.float32)


def rounded(actions: np.ndarray) -> np.ndarray:
    """To whole numbers."""
    return np.round(actions)


def doubled(rollout: Rollout, policy: Policy) -> Rollout:
    """Rewards twice as large."""
    return replace(rollout, rewards=rollout.rewards * 2)


class Counted:
    """Adds a bonus and counts rows: a connector with a state."""

    def __init__(self, bonus: float = 1.0):
        self.bonus, self.rows = bonus, 0

    def __call__(self, rollout: Rollout, policy: Policy) -> Rollout:
        self.rows += rollout.rewards.size
        return replace(rollout, rewards=rollout.rewards + self.bonus)

    def get_state(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def set_state(self, state: dict[str, Any]) -> None:
        self.rows = state["rows"]
