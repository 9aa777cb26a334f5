"""The distribution over each action space."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from trainables.core.data.spaces import PLAIN, leaf_spaces
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical, MultiBernoulli, MultiCategorical
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian
from trainables.core.distributions.joint import Joint
from trainables.core.errors import ConfigError

# A Box of integers is a choice per element up to this many of them: all values of a byte.
_MAX_CHOICES = 256


def distribution_for(space: gym.Space, *, squash: bool = False) -> Distribution:
    """Return the distribution over an action space.

    One that holds nothing but Boxes of floats gets one Gaussian, other nested ones a `Joint`. A
    Box of integers is a choice for each element.

    Args:
        space: The space of one action.
        squash: Whether Gaussians are squashed by tanh.

    Raises:
        ConfigError: if the space is not supported.
    """
    leaves = leaf_spaces(space, "action space")
    if PLAIN in leaves:
        return _leaf_distribution(space, PLAIN, squash)
    parts = {path: _leaf_distribution(leaf, path, squash) for path, leaf in leaves.items()}
    if all(isinstance(part, DiagGaussian) for part in parts.values()):
        gaussian = SquashedGaussian if squash else DiagGaussian
        return gaussian((sum(math.prod(part.action_shape) for part in parts.values()),))
    return Joint(parts)


def is_float_box(space: gym.Space) -> bool:
    """Return whether a space is a Box of floats."""
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)


def is_squashed(distribution: Distribution) -> bool:
    """Return whether a distribution, or a part of it, is a Gaussian squashed by tanh."""
    parts = distribution.parts.values() if isinstance(distribution, Joint) else [distribution]
    return any(isinstance(part, SquashedGaussian) for part in parts)


def _leaf_distribution(space: gym.Space, path: str, squash: bool) -> Distribution:
    shape = space.shape or ()
    if not math.prod(shape):
        raise _unsupported(space, path, "it has no elements")
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return MultiCategorical(space.nvec.ravel().tolist(), shape)
    if isinstance(space, gym.spaces.MultiBinary):
        return MultiBernoulli(shape)
    if is_float_box(space):
        return SquashedGaussian(shape) if squash else DiagGaussian(shape)
    assert isinstance(space, gym.spaces.Box)
    low, high = (bound.ravel().tolist() for bound in (space.low, space.high))
    counts = [int(last) - int(first) + 1 for first, last in zip(low, high, strict=True)]
    if max(counts) > _MAX_CHOICES:
        raise _unsupported(
            space,
            path,
            f"each element of a Box of integers is a choice of at most {_MAX_CHOICES}, here "
            f"{max(counts)}; use a Box of floats and round, or a MultiDiscrete of fewer steps",
        )
    return MultiCategorical(counts, shape)


def _unsupported(space: gym.Space, path: str, why: str) -> ConfigError:
    where = "" if path == PLAIN else f" at {path!r}"
    return ConfigError(f"action space {space}{where} is not supported: {why}")
