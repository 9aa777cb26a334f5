"""`get_preprocessor`: what networks see of single observations, for who calls them directly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from trainables.core.data.features import VECTOR
from trainables.core.data.layout import ObservationLayout
from trainables.core.data.preprocessor import Preprocessor
from trainables.core.data.spaces import check_observation, leaf_spaces


class SpacePreprocessor:
    """A preprocessor of single observations: it gives what networks see, before any filter.

    A policy does so by itself: only whoever calls networks directly needs it. Unlike in the
    reference images keep their size and their bytes: Atari games are scaled by their environment,
    and networks divide bytes by 255.

    Args:
        space: The space of one observation.
        options: Sizes of images in the reference, whose callers give them; of no effect here.

    Attributes:
        observation_space: The space that it was made for.
        shape: The shape of what `transform` gives; shapes by leaf, where that is a dict.

    Raises:
        ConfigError: if the space is not supported.
    """

    def __init__(self, space: gym.Space, options: dict[str, Any] | None = None):
        self.observation_space = space
        self._preprocessor, self._layout = Preprocessor(space), ObservationLayout(space, {})
        self.shape = self._shape()

    def transform(self, observation: Any) -> Any:
        """Return one observation as one vector `[F]`: flattened, discrete parts one-hot.

        A single image stays as it is; images beside other parts, and vectors, come by path.

        Raises:
            ConfigError: if it is not of the space.
        """
        check_observation(self.observation_space, observation, batched=False)
        leaves = self._layout.leaves(self._layout.rows(observation, batched=False))
        features = self._preprocessor(
            {path: torch.as_tensor(np.array(leaf)) for path, leaf in leaves.items()}
        )
        if not isinstance(features, dict):
            return features[0].numpy()
        arrays = {path: part[0].numpy() for path, part in features.items()}
        return next(iter(arrays.values())) if self._layout.is_plain else arrays

    def _shape(self) -> Any:
        spec = self._preprocessor.spec
        if spec.is_vector:
            return (spec.num_features,)
        shapes: dict[str, tuple[int, ...]] = {path: i.shape for path, i in spec.images.items()}
        if self._layout.is_plain:
            return next(iter(shapes.values()))
        return shapes | ({VECTOR: (spec.num_features,)} if spec.num_features else {})


def get_preprocessor(space: gym.Space) -> type[SpacePreprocessor]:
    """Return the class that preprocesses observations of a space: `get_preprocessor(space)(space)`.

    Raises:
        ConfigError: if the space is not supported.
    """
    leaf_spaces(space)
    return SpacePreprocessor
