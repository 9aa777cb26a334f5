"""From features to tokens: what the world model sees of an observation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.core.data.features import Features, FeatureSpec, action_mask_of, vector_of
from trainables.core.networks.world_model.images import ImageTokens
from trainables.core.networks.world_model.layers import mlp
from trainables.core.networks.world_model.sizes import ModelSize
from trainables.core.networks.world_model.symlog import symlog


class TokenEncoder(nn.Module):
    """Layers over the symlog of the vector part, and convolutions over each image, side by side.

    The action mask is seen with the vector.

    Args:
        spec: The features' description.
        size: Widths of the layers.
        generator: Random stream of the initial weights.

    Attributes:
        width: Width of the tokens.
    """

    def __init__(
        self, spec: FeatureSpec, size: ModelSize, generator: torch.Generator | None = None
    ):
        super().__init__()
        self._names = list(spec.images)
        images = [ImageTokens(image, size.depth, generator) for image in spec.images.values()]
        self.images = nn.ModuleList(images)
        self.width = sum(encoder.width for encoder in images)
        num_inputs = spec.num_features + spec.num_mask
        self.vector: nn.Module | None = None
        if num_inputs:
            self.vector = mlp(num_inputs, [size.units] * size.layers, generator=generator)
            self.width += size.units

    def forward(self, features: Features) -> Tensor:
        """Return tokens `[..., width]` of features `[..., …]`."""
        tokens: list[Tensor] = []
        if self.vector is not None:
            tokens.append(self.vector(torch.cat(_vectors(features), -1)))
        for name, encoder in zip(self._names, self.images, strict=True):
            assert isinstance(features, dict)
            tokens.append(encoder(features[name]))
        return tokens[0] if len(tokens) == 1 else torch.cat(tokens, -1)


def _vectors(features: Features) -> list[Tensor]:
    vector, mask = vector_of(features), action_mask_of(features)
    parts = [] if vector is None else [symlog(vector.to(torch.float32))]
    return parts if mask is None else [*parts, mask.to(torch.float32)]
