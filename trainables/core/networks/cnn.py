"""Convolutional encoders of single images."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainables.core.config.conv_filters import check_filters, default_filters
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import ImageSpec
from trainables.core.errors import ConfigError
from trainables.core.networks.mlp import activation_layer

# Images that are evaluated at once where no gradient is needed: a rollout's float images and
# activations together would take gigabytes.
_CHUNK = 256


class ImageEncoder(nn.Module):
    """Raw images of any dtype to flat features `[..., width]`, by convolutions without padding.

    Images become floats here, on the device: as bytes they take a quarter of the memory and of the
    way there.

    Args:
        name: Path of the image in the observation, for errors.
        image: What it looks like.
        settings: `conv_filters`, `conv_activation`, `scale_images`, `fcnet_initializer`.
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
            layers.append(
                _conv_layer(
                    num_channels,
                    conv.channels,
                    conv.kernel,
                    conv.stride,
                    settings.fcnet_initializer,
                    generator,
                )
            )
            if settings.conv_activation != "linear":
                layers.append(activation_layer(settings.conv_activation))
            size, num_channels = output, conv.channels
        self.layers = nn.Sequential(*layers)
        self.width = num_channels * math.prod(size)
        self._channels_first = image.channels_first
        self._scale = image.scale if settings.scale_images else 1.0

    def forward(self, images: Tensor) -> Tensor:
        """Features `[..., width]` of images `[..., *shape]`."""
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


def _conv_layer(
    num_inputs: int,
    num_outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    initializer: str,
    generator: torch.Generator | None,
) -> nn.Conv2d:
    layer = nn.utils.skip_init(nn.Conv2d, num_inputs, num_outputs, kernel, stride)
    assert layer.bias is not None
    if initializer == "orthogonal":
        nn.init.orthogonal_(layer.weight, math.sqrt(2), generator=generator)
        nn.init.zeros_(layer.bias)
    else:
        bound = 1 / math.sqrt(num_inputs * math.prod(kernel))
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer
