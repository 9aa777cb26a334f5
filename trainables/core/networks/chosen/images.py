"""Convolutions over the images of an observation, before the hidden layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainables.core.config.conv_filters import check_filters, default_filters
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import VECTOR, Features, FeatureSpec, ImageSpec
from trainables.core.errors import ConfigError
from trainables.core.networks.encoders import Encoder, hidden_layers
from trainables.core.networks.layers import activation_layer, initialize, undrawn

# Images that are evaluated at once where no gradient is needed: a rollout's float images and
# activations together would take gigabytes.
_CHUNK = 256


class ImageEncoder(nn.Module):
    """Convolutions without padding, from raw images of any dtype to features `[..., width]`.

    Images become floats here, on the device: as bytes they take a quarter of the memory and of the
    way there.

    Args:
        name: Path of the image in the observation, for errors.
        image: Shape and scale of the image.
        settings: The model's settings, of which those of images are used.
        generator: Random stream of the initial weights.

    Raises:
        ConfigError: if a filter does not fit.
    """

    def __init__(
        self,
        name: str,
        image: ImageSpec,
        settings: ModelConfig,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        given, size, num_channels = settings.conv_filters, image.size, image.num_channels
        filters = default_filters(size) if given is None else check_filters(given)
        layers: list[nn.Module] = []
        for number, conv in enumerate(filters):
            output = conv.output_size(size)
            if min(output) < 1:
                raise ConfigError(
                    f"conv_filters: filter {number} ({given[number] if given else conv}) does not "
                    f"fit the image {name or 'observation'!r} of {image.size[0]}x{image.size[1]}: "
                    f"{size[0]}x{size[1]} is left there"
                )
            layer = undrawn(nn.Conv2d, num_channels, conv.channels, conv.kernel, conv.stride)
            initialize(layer, math.sqrt(2), settings.fcnet_initializer, generator)
            layers.append(layer)
            if settings.conv_activation != "linear":
                layers.append(activation_layer(settings.conv_activation))
            size, num_channels = output, conv.channels
        self.layers = nn.Sequential(*layers)
        self.width = num_channels * math.prod(size)
        self._channels_first = image.channels_first
        self._scale = image.scale if settings.scale_images else 1.0

    def forward(self, images: Tensor) -> Tensor:
        """Return features `[..., width]` of images `[..., *shape]`."""
        leading = images.shape[:-3]
        flat = images.reshape(-1, *images.shape[-3:])
        # A compiled or exported program is one for all batch sizes.
        whole = torch.is_grad_enabled() or torch.compiler.is_compiling() or len(flat) <= _CHUNK
        if whole:
            encoded = self._encoded(flat)
        else:
            encoded = torch.cat([self._encoded(part) for part in flat.split(_CHUNK)])
        return encoded.reshape(*leading, self.width)

    def _encoded(self, images: Tensor) -> Tensor:
        first = images if self._channels_first else images.movedim(-1, -3)
        pixels = first.to(torch.float32)
        return self.layers(pixels if self._scale == 1 else pixels / self._scale).flatten(1)


class ImagesEncoder(Encoder):
    """A CNN for each image; their outputs and the vector together go through the hidden layers.

    With images alone, the hidden layers follow the convolutions: the network of Mnih et al. (2015)
    has one of 512 units.

    Args:
        spec: The features' description, with at least one image.
        settings: The model's settings.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self, spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None = None
    ):
        super().__init__()
        self._names = list(spec.images)
        self._has_vector = spec.num_features > 0
        images = [
            ImageEncoder(name, image, settings, generator) for name, image in spec.images.items()
        ]
        self.images = nn.ModuleList(images)
        num_inputs = spec.num_features + sum(image.width for image in images)
        self.hidden, self.width = hidden_layers(num_inputs, settings, generator)

    def forward(self, features: Features) -> Tensor:
        assert isinstance(features, dict)
        parts = self._encoded(features)
        if self._has_vector:
            parts.append(features[VECTOR])
        return self._joined(parts)

    def of_each(self, features: Features, vectors: Tensor) -> Tensor:
        """Return the outputs for several vectors beside the same images, `[B, M, width]`.

        An image is encoded once for all of them.

        Args:
            features: With the images of each row, `[B, …]`.
            vectors: What takes the place of the vector part, `[B, M, num_features]`.
        """
        assert isinstance(features, dict)
        count = vectors.shape[1]
        parts = [part.unsqueeze(1).expand(-1, count, -1) for part in self._encoded(features)]
        return self._joined([*parts, vectors])

    def _encoded(self, features: dict[str, Tensor]) -> list[Tensor]:
        pairs = zip(self.images, self._names, strict=True)
        return [encoder(features[name]) for encoder, name in pairs]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return self.hidden(parts[0] if len(parts) == 1 else torch.cat(parts, -1))
