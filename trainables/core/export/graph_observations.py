"""Observations to check an exported graph on."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from trainables.core.policy.policy import Policy

_WIDE = 1e6  # bounds beyond it are none: what lies between them overflows in any network


@dataclass(frozen=True)
class Recording:
    """Observations of N slots over T steps.

    Attributes:
        rows: Observations as `ObservationLayout` stores them, `[T, N, *shape]`.
        rewards: The reward before each row, `[T, N]`.
        is_first: Whether a row begins an episode, `[T, N]`.
        source: The source of the rows, e.g. "space" or an environment's name.
    """

    rows: np.ndarray
    rewards: np.ndarray
    is_first: np.ndarray
    source: str


def sampled(policy: Policy, num_steps: int, num_slots: int, seed: int = 0) -> Recording:
    """Draw observations from the observation space, in episodes of about ten steps.

    Args:
        policy: The policy with the space.
        num_steps: Steps of each slot, T.
        num_slots: Number of slots, N.
        seed: Seed of the observations.
    """
    layout = policy.observations.layout
    rng = np.random.default_rng(seed)
    rows = layout.zeros((num_steps, num_slots))
    for number, (path, space) in enumerate(layout.leaf_spaces.items()):
        leaf = _finite(space)
        leaf.seed(seed + number)
        target = layout.leaves(rows)[path]
        for t in range(num_steps):
            for n in range(num_slots):
                target[t, n] = leaf.sample()
    is_first = rng.random((num_steps, num_slots)) < 0.1
    is_first[0] = True
    rewards = rng.normal(size=(num_steps, num_slots)).astype(np.float32)
    return Recording(rows, rewards, is_first, "space")


def _finite(space: gym.Space) -> gym.Space:
    """Return the space, with no bounds where they are too wide to be drawn between."""
    if not isinstance(space, gym.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return copy.deepcopy(space)
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    low = np.where(np.abs(low) > _WIDE, -np.inf, low)
    high = np.where(np.abs(high) > _WIDE, np.inf, high)
    dtype = space.dtype
    return gym.spaces.Box(low.astype(dtype), high.astype(dtype), space.shape, dtype.type)
