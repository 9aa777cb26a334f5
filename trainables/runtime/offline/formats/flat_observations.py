"""Observations as RLlib's preprocessors have made them: flat, with choices one-hot."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import leaf_spaces
from trainables.runtime.offline.checks import Place


def is_flattened(values: np.ndarray, space: gym.Space) -> bool:
    """Return whether rows `[N, ...]` can only be observations that were flattened."""
    if isinstance(space, gym.spaces.Box) or values.shape[1:] == space.shape:
        return False
    return values.shape[1:] == (sum(map(_width, leaf_spaces(space).values())),)


def unflattened(values: np.ndarray, space: gym.Space, path: str, at: Place) -> np.ndarray:
    """Return a leaf of flattened observations.

    Args:
        values: All of them, `[N, width]`: leaves side by side, in the order of the space.
        space: The space.
        path: The leaf.
        at: Where they stand.

    Returns:
        Rows `[N, *shape]` of the leaf.

    Raises:
        DataError: for a choice that is not one-hot.
    """
    start = 0
    for each, leaf in leaf_spaces(space).items():
        stop = start + _width(leaf)
        if each == path:
            return _leaf(values[:, start:stop], leaf, at)
        start = stop
    raise KeyError(path)


def _leaf(values: np.ndarray, leaf: gym.Space, at: Place) -> np.ndarray:
    if isinstance(leaf, gym.spaces.Discrete):
        return _choice(values, at) + int(leaf.start)
    if isinstance(leaf, gym.spaces.MultiDiscrete):
        ends = np.cumsum(leaf.nvec.ravel())[:-1]
        choices = [_choice(part, at) for part in np.split(values, ends, axis=1)]
        return np.stack(choices, axis=1).reshape(-1, *leaf.nvec.shape) + leaf.start
    return values.reshape(-1, *(leaf.shape or ()))


def _choice(values: np.ndarray, at: Place) -> np.ndarray:
    """Return which of the columns `[N, n]` is 1, `[N]`."""
    wrong = ((values != 0).sum(1) != 1) | (values.max(1, initial=0) != 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise at.error(f"{values[row].tolist()} is not one-hot, as RLlib flattens choices", row)
    return values.argmax(1)


def _width(leaf: gym.Space) -> int:
    """Return how many numbers a leaf takes."""
    if isinstance(leaf, gym.spaces.Discrete):
        return int(leaf.n)
    if isinstance(leaf, gym.spaces.MultiDiscrete):
        return int(leaf.nvec.sum())
    return math.prod(leaf.shape or ())
