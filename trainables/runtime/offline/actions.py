"""Recorded actions, which are the environment's, as a policy's distribution stores them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import tree_of_leaves
from trainables.core.policy.policy import Policy


class StoredActions:
    """The way from recorded actions to stored ones.

    Args:
        policy: Whose distribution they are for.

    Attributes:
        are_recorded: Whether they are the same: choices that are counted from 0.
    """

    def __init__(self, policy: Policy):
        self._space, self._connector = policy.action_space, policy.actions
        self._layout = ObservationLayout(policy.action_space)
        self._shape = policy.distribution.action_shape
        self._dtype = torch.empty(0, dtype=policy.distribution.action_dtype).numpy().dtype
        self.are_recorded = (
            isinstance(policy.action_space, gym.spaces.Discrete) and policy.action_space.start == 0
        )

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of the action layout, `[..., *shape]`, as stored actions `[..., *shape]`."""
        if self.are_recorded:
            return rows.astype(self._dtype, copy=False)
        leading = rows.shape[: rows.ndim - len(self._layout.shape)]
        leaves = self._layout.leaves(rows.reshape(-1, *self._layout.shape))
        stored = self._connector.to_stored(tree_of_leaves(self._space, leaves)).numpy()
        return stored.reshape(*leading, *self._shape)
