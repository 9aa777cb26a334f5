"""From the state of the world model back to the observation."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from trainables.core.data.features import (
    ACTION_MASK,
    VECTOR,
    Features,
    FeatureSpec,
    action_mask_of,
    vector_of,
)
from trainables.core.networks.world_model.images import ImageDecoder, squeezed, unsqueezed
from trainables.core.networks.world_model.latents import Drawn
from trainables.core.networks.world_model.layers import mlp
from trainables.core.networks.world_model.sizes import ModelSize
from trainables.core.networks.world_model.symlog import symexp, symlog


class Decoder(nn.Module):
    """Predicts the vector part, each image, and which actions are allowed.

    Args:
        num_inputs: Width of the model's features.
        spec: The description of an observation's features.
        size: Widths of the layers.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_inputs: int,
        spec: FeatureSpec,
        size: ModelSize,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self._images = spec.images
        self._num_vector, self._num_mask = spec.num_features, spec.num_mask
        self.images = nn.ModuleList(
            ImageDecoder(num_inputs, image, size.depth, generator) for image in spec.images.values()
        )
        self.vector: nn.Module | None = None
        num_outputs = spec.num_features + spec.num_mask
        if num_outputs:
            hiddens = [size.units] * size.layers
            self.vector = mlp(num_inputs, hiddens, num_outputs, generator=generator)

    def losses(self, states: Tensor, features: Features) -> Tensor:
        """Return what the predictions are off by, summed over all parts of an observation, `[...]`.

        Squared errors of symlogs, and of pixels in [0, 1]; cross-entropies of the mask, nats.

        Args:
            states: The model's features, `[..., num_inputs]`.
            features: The observation's, `[..., …]`.
        """
        total = torch.zeros(states.shape[:-1], device=states.device)
        if self.vector is not None:
            predicted, mask_logits = self._split(self.vector(states))
            vector, mask = vector_of(features), action_mask_of(features)
            if vector is not None:
                target = symlog(vector.to(torch.float32))
                total = total + (predicted - target).square().sum(-1)
            if mask is not None:
                errors = binary_cross_entropy_with_logits(
                    mask_logits, mask.to(torch.float32), reduction="none"
                )
                total = total + errors.sum(-1)
        for (name, image), decoder in zip(self._images.items(), self.images, strict=True):
            assert isinstance(features, dict)
            errors = decoder(states) - squeezed(features[name], image)
            total = total + errors.square().sum((-3, -2, -1))
        return total

    def mask(self, states: Tensor | Drawn) -> Tensor | None:
        """Return which actions are probably allowed, `[..., num_mask]`; None: there is no mask."""
        if not self._num_mask:
            return None
        assert self.vector is not None
        return self._split(self.vector(states))[1] > 0

    def forward(self, states: Tensor) -> dict[str, Tensor]:
        """Return predicted observations by the names that features have, `[..., …]`."""
        predicted: dict[str, Tensor] = {}
        if self.vector is not None:
            vector, mask_logits = self._split(self.vector(states))
            if self._num_vector:
                predicted[VECTOR] = symexp(vector)
            if self._num_mask:
                predicted[ACTION_MASK] = mask_logits > 0
        for (name, image), decoder in zip(self._images.items(), self.images, strict=True):
            predicted[name] = unsqueezed(decoder(states), image)
        return predicted

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        vector, mask = outputs.split([self._num_vector, self._num_mask], -1)
        return vector, mask
