"""Features, which modules see, and the description of them that networks are built from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

Features = Tensor | dict[str, Tensor]
"""Preprocessed observations with any leading dimensions.

A plain tensor `[..., num_features]` where everything is a vector. Otherwise a dict with

- `VECTOR`: all vector leaves side by side, `[..., num_features]`, float32; left out if there are
  none;
- an image for each entry of `FeatureSpec.images`, as the environment gave it, `[..., *shape]`;
- `ACTION_MASK`: which actions are allowed, `[..., num_mask]`, bool;
- `PREV_ACTION` `[..., num_prev_action]` and `PREV_REWARD` `[..., 1]`, float32, zero at an
  episode's start.
"""

# No key of an observation begins with "@", so that a leaf cannot be called like one of these.
VECTOR = "@vector"
ACTION_MASK = "@action_mask"
PREV_ACTION = "@prev_action"
PREV_REWARD = "@prev_reward"

FRAMES = "@frames"
"""The name of the last frames in a policy's state; no network's state begins with "@"."""


@dataclass(frozen=True)
class ImageSpec:
    """An image leaf of the observation.

    Attributes:
        shape: The shape of one image, three axes in the order of the environment.
        channels_first: Whether the first axis holds the channels, else the last.
        scale: The divisor that brings its values near [0, 1]; 255 for bytes.
    """

    shape: tuple[int, int, int]
    channels_first: bool
    scale: float

    @property
    def num_channels(self) -> int:
        """Channels of one image."""
        return self.shape[0] if self.channels_first else self.shape[2]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.shape[1:] if self.channels_first else self.shape[:2]


@dataclass(frozen=True)
class FeatureSpec:
    """The description of features.

    Attributes:
        num_features: Width of the vector part, 0 if there is none.
        images: Image leaves by their path in the observation.
        slices: Begin and end of each vector leaf in the vector part, by path.
        num_mask: Entries of the action mask; 0: there is none.
        num_prev_action: Width of the encoded previous action; 0: it is not given.
        has_prev_reward: Whether the previous reward is given.
        num_critic: Columns at the end of the vector part that only a value function sees.
        critic_images: Images that only a value function sees, by their path.
    """

    num_features: int
    images: dict[str, ImageSpec] = field(default_factory=dict)
    slices: dict[str, tuple[int, int]] = field(default_factory=dict)
    num_mask: int = 0
    num_prev_action: int = 0
    has_prev_reward: bool = False
    num_critic: int = 0
    critic_images: tuple[str, ...] = ()

    @property
    def has_critic_part(self) -> bool:
        """Whether a value function sees more than what acts."""
        return bool(self.num_critic or self.critic_images)

    def for_acting(self) -> FeatureSpec:
        """Return the description of what acts, see `acting_features`."""
        if not self.has_critic_part:
            return self
        width = self.num_features - self.num_critic
        return replace(
            self,
            num_features=width,
            images={k: v for k, v in self.images.items() if k not in self.critic_images},
            slices={path: part for path, part in self.slices.items() if part[1] <= width},
            num_critic=0,
            critic_images=(),
        )

    @property
    def is_vector(self) -> bool:
        """True if features are a plain tensor."""
        return not (self.images or self.num_mask or self.num_prev_action or self.has_prev_reward)


def vector_of(features: Features) -> Tensor | None:
    """Return the vector part of features, `[..., num_features]`, or None if there is none."""
    return features.get(VECTOR) if isinstance(features, dict) else features


def action_mask_of(features: Features) -> Tensor | None:
    """Return the action mask of features, `[..., num_mask]`, or None if there is none."""
    return features.get(ACTION_MASK) if isinstance(features, dict) else None


def acting_features(features: Features, spec: FeatureSpec) -> Features:
    """Return features without what only a value function sees.

    Args:
        features: Of the whole observation.
        spec: Their description.
    """
    if not spec.has_critic_part:
        return features
    width = spec.num_features - spec.num_critic
    if not isinstance(features, dict):
        return features[..., :width]
    acting = {k: v for k, v in features.items() if k not in spec.critic_images}
    if VECTOR in acting:
        acting[VECTOR] = acting[VECTOR][..., :width]
        if not width:
            del acting[VECTOR]
    return acting if not spec.for_acting().is_vector else acting[VECTOR]


def map_tensors(function: Callable[[Tensor], Tensor], features: Features) -> Features:
    """Apply a function to every tensor."""
    if isinstance(features, dict):
        return {name: function(tensor) for name, tensor in features.items()}
    return function(features)


def joined_rows(parts: Sequence[Features]) -> Features:
    """Return the rows of several features, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(first := parts[0], dict):
        return {name: torch.cat([part[name] for part in parts]) for name in first}  # type: ignore[index]
    return torch.cat(parts)  # type: ignore[arg-type]
