"""Actions as a distribution stores them, as environments take them, and back."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.spaces import (
    PLAIN,
    check_observation,
    leaf_spaces,
    leaves_of,
    map_leaves,
    tree_of_leaves,
)
from trainables.core.distributions.base import Distribution, Taken
from trainables.core.distributions.build import is_float_box
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.distributions.joint import Joint
from trainables.core.errors import ConfigError

# How far before a bound, in halves of the width, an element is taken for the bound.
_ROUNDED, _SATURATED = 1e-6, 1e-4
_ROUNDINGS = 64  # of the environment's type: tanh is then told within a hundredth


class ActionConnector:
    """The way from stored actions to actions for the environment, and back.

    A stored action of a Dict or Tuple space is one vector: its leaves flattened, in the space's
    order. See `Joint`.

    Args:
        space: The environment's action space.
        distribution: The distribution that actions are drawn from.
        normalize: Whether to stretch [-1, 1] to the bounds of Boxes of floats, then clip to them.
        clip: Whether to clip Boxes of floats to their bounds without stretching.

    Attributes:
        taken: How environments take what is stored.

    Raises:
        ConfigError: if a leaf is not supported, or is squashed and has no bounds.
    """

    def __init__(
        self, space: gym.Space, distribution: Distribution, *, normalize: bool, clip: bool
    ):
        self.space = space
        self._dtype = distribution.action_dtype
        self._spaces = leaf_spaces(space, "action space")
        parts = distribution.parts if isinstance(distribution, Joint) else {}
        self._leaves: list[_Discrete | _Continuous] = []
        for path, leaf in self._spaces.items():
            if not is_float_box(leaf):
                self._leaves.append(_Discrete(leaf))
                continue
            is_squashed = isinstance(parts.get(path, distribution), SquashedGaussian)
            self._leaves.append(_Continuous(leaf, path, is_squashed, normalize, clip))
        self._sizes = [math.prod(leaf.shape or ()) for leaf in self._spaces.values()]
        self._is_plain = PLAIN in self._spaces
        self._distribution = distribution
        self.taken = self._how_taken()

    def __call__(self, actions: Tensor) -> Any:
        """Return actions for a vector environment, of the dtypes of its space and inside it.

        Args:
            actions: Stored actions, `[N, …]`.

        Returns:
            An array `[N, *shape]`; for Dict and Tuple spaces a dict or tuple of them, nested as
            the space is.
        """
        if self._is_plain:  # without a dict: this is called at each step
            return self._leaves[0].tensor(actions.cpu()).numpy()
        made = {path: part.numpy() for path, part in self.tensors(actions.cpu()).items()}
        return tree_of_leaves(self.space, made)

    def tensors(self, actions: Tensor) -> dict[str, Tensor]:
        """Return what a call gives, by path and as tensors: for programs without numpy."""
        return {path: leaf.tensor(part) for path, leaf, part in self._split(actions)}

    def to_stored_tensor(self, actions: Tensor) -> Tensor:
        """Return stored actions as `to_stored` gives them of `tensors`: clipped, if they were."""
        stored = [leaf.to_stored_tensor(part) for _, leaf, part in self._split(actions)]
        if self._is_plain:
            return stored[0].to(self._dtype)
        return torch.cat([part.reshape(part.shape[0], -1) for part in stored], -1).to(self._dtype)

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Return the log-probability of what the environment is given of actions, `[N]`.

        What a policy recorded, and what another one would have recorded, is measured by this: it
        is the same for stored actions and for those that `to_stored` gives of the environment's.

        Args:
            inputs: Inputs of the distribution, `[N, num_inputs]`.
            actions: Stored actions, clipped or not, `[N, …]`.
        """
        return self._distribution.taken_logp(inputs, actions, self.taken)

    def _split(self, actions: Tensor) -> list[tuple[str, _Discrete | _Continuous, Tensor]]:
        """Return path, leaf and stored actions `[N, *shape]` of each."""
        if self._is_plain:
            return [(PLAIN, self._leaves[0], actions)]
        parts = zip(self._spaces.items(), self._leaves, actions.split(self._sizes, -1), strict=True)
        return [
            (path, leaf, part.reshape(part.shape[0], *(space.shape or ())))
            for (path, space), leaf, part in parts
        ]

    def scaled(self, unsquash: bool | None, clip: bool | None) -> ActionConnector:
        """Return a connector that stretches or clips Boxes of floats otherwise.

        Args:
            unsquash: Whether to stretch [-1, 1] to the bounds and clip; None: as this one does.
            clip: Whether to clip what is not stretched; None: as this one does.

        Returns:
            This one, if it does so already.
        """
        if unsquash is None and clip is None:
            return self
        leaves = [leaf.scaled(unsquash, clip) for leaf in self._leaves]
        if all(new is old for new, old in zip(leaves, self._leaves, strict=True)):
            return self
        made = copy(self)
        made._leaves = leaves
        made.taken = made._how_taken()
        return made

    def _how_taken(self) -> Taken:
        columns = zip(*(leaf.taken() for leaf in self._leaves), strict=True)
        return Taken(*map(torch.cat, columns))

    def to_stored(self, actions: Any, *, batched: bool = True) -> Tensor:
        """Return an environment's actions as they are stored: undoes a call, but for rounding.

        Args:
            actions: A batch as a vector environment takes it, see `__call__`; of a Dict or Tuple
                space it may also be a list of single actions.
            batched: Whether it is a batch; a single action is stored without a batch axis.

        Raises:
            ConfigError: naming the leaf that is not of the space. Boxes may be left: what clipping
                has lost cannot be told anyway.
        """
        check_observation(self.space, actions, batched=batched, what="action")
        if batched and isinstance(actions, list) and not self._is_plain:
            return torch.stack([self.to_stored(action, batched=False) for action in actions])
        arrays = map(np.asarray, leaves_of(self.space, actions).values())
        pairs = zip(self._leaves, arrays, strict=True)
        stored = [leaf.inverse(array if batched else array[None]) for leaf, array in pairs]
        if not self._is_plain:
            stored = [np.concatenate([part.reshape(len(part), -1) for part in stored], -1)]
        tensor = torch.from_numpy(stored[0]).to(self._dtype)
        return tensor if batched else tensor[0]


class _Discrete:
    """The way from choices counted from 0 to choices of the space, by what it starts at."""

    def __init__(self, space: gym.Space):
        self._dtype, self._size = torch_dtype(space.dtype), math.prod(space.shape or ())
        if isinstance(space, gym.spaces.Box):
            start = space.low
        else:
            start = np.asarray(getattr(space, "start", 0))  # MultiBinary has none
        # Also of uint64: it wraps on the way there and back.
        self._start = start.astype(np.int64) if start.any() else None

    def scaled(self, unsquash: bool | None, clip: bool | None) -> _Discrete:
        return self  # choices have no bounds to be stretched to

    def taken(self) -> Taken:
        """Return that choices are taken as they are."""
        none = torch.full((self._size,), math.inf)
        return Taken(-none, none, torch.zeros(self._size))

    def tensor(self, actions: Tensor) -> Tensor:
        """Return choices of the space `[N, *shape]`."""
        if self._start is not None:
            actions = actions.to(torch.int64) + torch.from_numpy(self._start)
        return actions.to(self._dtype)

    def to_stored_tensor(self, actions: Tensor) -> Tensor:
        """Return the inverse of `tensor` after it."""
        return actions

    def inverse(self, array: np.ndarray) -> np.ndarray:
        array = array.astype(np.int64)
        return array if self._start is None else array - self._start


class _Continuous:
    """The way from elements of a distribution to elements of a Box of floats."""

    def __init__(self, space: gym.Space, path: str, is_squashed: bool, normalize: bool, clip: bool):
        assert isinstance(space, gym.spaces.Box)
        self._dtype, self._squashes = torch_dtype(space.dtype), is_squashed
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        if is_squashed and not bounded.all():
            where = "" if path == PLAIN else f" at {path!r}"
            raise ConfigError(
                f"model squash_actions=True needs a bounded action space, not {space}{where}"
            )
        self._unsquashes, self._clip = normalize or is_squashed, clip
        self._has_bounds = bool(bounded.any())
        self._stretches = self._unsquashes and self._has_bounds
        self._clips = self._unsquashes or clip  # what is squashed for the rounding alone
        work = np.promote_types(space.dtype, np.float32)
        # Halves first: the width of the widest Box is not finite.
        low = np.where(bounded, space.low, -1).astype(work) / 2
        high = np.where(bounded, space.high, 1).astype(work) / 2
        self._center, self._half = high + low, high - low
        self._divisor = np.where(self._half > 0, self._half, 1)  # of a Box with a single value
        parts = (self._center, self._half, self._divisor, space.low, space.high)
        self._constants = [torch.from_numpy(np.array(part, work)) for part in parts]

    def scaled(self, unsquash: bool | None, clip: bool | None) -> _Continuous:
        """See `ActionConnector.scaled`."""
        made = copy(self)
        made._unsquashes = self._unsquashes if unsquash is None else unsquash
        made._stretches = made._unsquashes and self._has_bounds
        made._clips = made._unsquashes or (self._clip if clip is None else clip)
        same = (made._stretches, made._clips) == (self._stretches, self._clips)
        return self if same else made

    def taken(self) -> Taken:
        """Return where elements are taken for a bound: a rounding before it, so that none is lost.

        The way to the environment's type and back rounds. Close to a bound tanh leaves so few
        digits that the stored action, and with it the density, could not be told.
        """
        center, _, half, low, high = (part.double().flatten() for part in self._constants)
        ends = [(end - center) / half if self._stretches else end for end in (low, high)]
        unit = half if self._stretches else torch.ones_like(half)
        largest = torch.where(low.isfinite() & high.isfinite(), low.abs().maximum(high.abs()), 1)
        eps = max(torch.finfo(dtype).eps for dtype in (self._dtype, torch.float32))
        least = _SATURATED if self._squashes else _ROUNDED
        margin = (_ROUNDINGS * eps * largest / unit).clamp(least, 0.5)
        ends = [ends[0] + margin, ends[1] - margin]
        if self._squashes:
            ends = [end.atanh() for end in ends]
        if not self._clips:
            ends = [torch.full_like(low, -math.inf), torch.full_like(low, math.inf)]
        log_unit = torch.zeros_like(half) if self._stretches else -half.log()
        return Taken(*(part.float() for part in (*ends, log_unit)))

    def tensor(self, actions: Tensor) -> Tensor:
        """Return elements of the Box `[N, *shape]`."""
        if self._squashes:
            actions = actions.tanh()
        # PyTorch would not promote to the dtype of a tensor without axes, as NumPy does.
        center, half, _, low, high = self._constants
        actions = actions.to(center.dtype)
        if self._stretches:
            actions = center + actions * half
        if self._clips:
            actions = actions.clamp(low, high)
        return actions.to(self._dtype)

    def to_stored_tensor(self, actions: Tensor) -> Tensor:
        """Return the inverse of `tensor` after it."""
        center, _, divisor, *_ = self._constants
        made = self.tensor(actions).to(center.dtype)
        if self._stretches:
            made = (made - center) / divisor
        made = made.to(torch.float32)
        if self._squashes:
            limit = 1 - torch.finfo(torch.float32).eps
            made = made.clamp(-limit, limit).atanh()
        return made

    def inverse(self, array: np.ndarray) -> np.ndarray:
        if self._stretches:
            array = (array - self._center) / self._divisor
        array = array.astype(np.float32)
        if self._squashes:
            limit = 1 - np.finfo(np.float32).eps  # atanh is finite inside
            array = np.arctanh(np.clip(array, -limit, limit))
        return array


def torch_dtype(dtype: Any) -> torch.dtype:
    """Return PyTorch's type of the same name."""
    return torch.from_numpy(np.empty(0, dtype)).dtype


def single_action(space: gym.Space, actions: Any, index: int = 0) -> Any:
    """Return one action of a batch for a vector environment, as one environment takes it."""
    return map_leaves(lambda leaf, array: _row(leaf, array, index), space, actions)


def _row(space: gym.Space, array: np.ndarray, index: int) -> Any:
    """Return a number of a Discrete space, else an array, also if it has no axes."""
    return array[index] if isinstance(space, gym.spaces.Discrete) else array[index, ...]
