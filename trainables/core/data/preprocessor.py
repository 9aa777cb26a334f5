"""From stored observations to features: one-hot, flattened, side by side; images as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.data.features import (
    ACTION_MASK,
    PREV_ACTION,
    PREV_REWARD,
    VECTOR,
    Features,
    FeatureSpec,
    ImageSpec,
)
from trainables.core.data.spaces import PLAIN, leaf_spaces

_EXTRAS = (PREV_ACTION, PREV_REWARD)


class Preprocessor:
    """The way from stored observations to features.

    Boxes of three axes are images and stay as they are; every other leaf becomes a vector: boxes
    flattened, discrete ones one-hot, binary ones 0 and 1. Vectors lie side by side, in the order of
    the space, those that only a value function sees behind the others.

    Args:
        space: The space of one observation.
        mask: The path of the leaf that says which actions are allowed, or None.
        critic_key: The key of what only a value function sees, or None.
        num_prev_action: Width of the encoded previous action, if it is stored beside observations.
        has_prev_reward: Whether the previous reward is stored beside them.
        channels_first: Whether images have their channels in the first axis; None: their shapes
            say, see `has_channels_first`.
        exact: Whether vectors are float64 where the space holds what float32 does not, for a
            filter to subtract from; else they are float32.

    Attributes:
        spec: The description of the features.

    Raises:
        ConfigError: if the space is not supported.
    """

    def __init__(
        self,
        space: gym.Space,
        *,
        mask: str | None = None,
        critic_key: str | None = None,
        num_prev_action: int = 0,
        has_prev_reward: bool = False,
        channels_first: bool | None = None,
        exact: bool = False,
    ):
        self.space, self._mask = space, mask
        self._vectors: dict[str, Callable[[Tensor], Tensor]] = {}
        images: dict[str, ImageSpec] = {}
        slices: dict[str, tuple[int, int]] = {}
        num_features = num_mask = num_critic = 0
        leaves = leaf_spaces(space)
        is_wide = exact and any(_is_wide(leaf) for leaf in leaves.values())
        dtype = torch.float64 if is_wide else torch.float32
        unseen = [path for path in leaves if is_below(path, critic_key)]
        for path in sorted(leaves, key=unseen.__contains__):
            leaf = leaves[path]
            image = _image_spec(leaf, channels_first)
            if path == mask:
                num_mask, self._mask_rank = math.prod(leaf.shape or ()), len(leaf.shape or ())
            elif image is not None:
                images[path] = image
            else:
                self._vectors[path], width = _vector_encoder(leaf, dtype)
                slices[path] = (num_features, num_features + width)
                num_features += width
                num_critic += width if path in unseen else 0
        self.spec = FeatureSpec(
            num_features,
            images,
            slices,
            num_mask=num_mask,
            num_prev_action=num_prev_action,
            has_prev_reward=has_prev_reward,
            num_critic=num_critic,
            critic_images=tuple(path for path in unseen if path in images),
        )
        self._plain = self._vectors.get(PLAIN) if self.spec.is_vector else None

    @property
    def num_features(self) -> int:
        """Width of the vector part."""
        return self.spec.num_features

    def __call__(self, obs: Tensor | Mapping[str, Tensor]) -> Features:
        """Return the features of stored observations.

        Args:
            obs: Rows `[..., *shape]` of a plain space; else leaves and extras by name.
        """
        if isinstance(obs, Tensor):
            if self._plain is not None:
                return self._plain(obs)
            obs = {PLAIN: obs}
        vectors = [encode(obs[path]) for path, encode in self._vectors.items()]
        if self.spec.is_vector:
            return torch.cat(vectors, -1)
        features = {path: obs[path] for path in self.spec.images}
        if vectors:
            features[VECTOR] = torch.cat(vectors, -1)
        if self._mask is not None:
            mask = obs[self._mask]
            rank = self._mask_rank
            features[ACTION_MASK] = mask.reshape(*mask.shape[: mask.dim() - rank], -1) != 0
        features |= {name: obs[name] for name in _EXTRAS if name in obs}
        return features


def is_below(path: str, key: str | None) -> bool:
    """Tell whether a leaf's path is that of a key, or of a part of what the key stands for."""
    return key is not None and (path == key or path.startswith(f"{key}/"))


def has_channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether the first axis of an image of one frame has its channels, not the last.

    Images are at least as wide as they have channels; a tie is read as gymnasium's own order.
    """
    return shape[0] < shape[2]


def _image_spec(leaf: gym.Space, channels_first: bool | None) -> ImageSpec | None:
    """Return what a Box of three axes looks like as an image; None for every other space."""
    if not isinstance(leaf, gym.spaces.Box) or len(leaf.shape) != 3:
        return None
    if channels_first is None:
        channels_first = has_channels_first(leaf.shape)
    is_bytes = leaf.dtype == np.uint8 and bool((leaf.high == 255).all())
    return ImageSpec(leaf.shape, channels_first, scale=255.0 if is_bytes else 1.0)


def _is_wide(leaf: gym.Space) -> bool:
    """Return whether it is a Box of numbers that float32 does not hold."""
    return isinstance(leaf, gym.spaces.Box) and not np.can_cast(leaf.dtype, np.float32)


def _vector_encoder(leaf: gym.Space, dtype: torch.dtype) -> tuple[Callable[[Tensor], Tensor], int]:
    """Return what makes vectors of a leaf's values, and their width."""
    if isinstance(leaf, gym.spaces.Discrete):
        start = torch.tensor([int(leaf.start)])
        return partial(_one_hot, [int(leaf.n)], start, 0, dtype), int(leaf.n)
    if isinstance(leaf, gym.spaces.MultiDiscrete):
        nvec = [int(n) for n in leaf.nvec.ravel()]
        starts = np.broadcast_to(leaf.start, leaf.nvec.shape).ravel()
        start = torch.tensor([int(n) for n in starts])
        return partial(_one_hot, nvec, start, leaf.nvec.ndim, dtype), sum(nvec)
    width = math.prod(leaf.shape or ())
    return partial(_flat, len(leaf.shape or ()), width, dtype), width


def _flat(rank: int, width: int, dtype: torch.dtype, values: Tensor) -> Tensor:
    """Return arrays of some rank as vectors."""
    if rank == 1:
        return values.to(dtype)
    return values.reshape(*values.shape[: values.dim() - rank], width).to(dtype)


def _one_hot(
    nvec: list[int], start: Tensor, rank: int, dtype: torch.dtype, values: Tensor
) -> Tensor:
    """Return integers as one-hot vectors, those of an array side by side."""
    leading = values.shape[: values.dim() - rank]
    index = values.reshape(*leading, len(nvec)).to(torch.int64) - start.to(values.device)
    columns = [one_hot(part, n) for part, n in zip(index.unbind(-1), nvec, strict=True)]
    return torch.cat(columns, -1).to(dtype)
