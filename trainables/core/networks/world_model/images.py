"""Convolutions down to a few pixels, and back up to the image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate, pixel_shuffle, silu

from trainables.core.data.features import ImageSpec
from trainables.core.networks.layers import undrawn
from trainables.core.networks.world_model.layers import Normed, initialize, scaled_to_one
from trainables.core.networks.world_model.symlog import symexp, symlog

_SMALLEST = 7  # pixels: as far as convolutions go
_KERNEL = 5
# Of an even and of an odd row of a doubled image: which of five weights fall on the small image's
# row above, on its own, and on the one below.
_SHARES = (
    ((1, 1, 0, 0, 0), (0, 0, 1, 1, 0), (0, 0, 0, 0, 1)),
    ((1, 0, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 0, 1, 1)),
)
_WIDTHS = (2, 3, 4)  # times the depth; from the third stage on the last one


def stage_sizes(size: tuple[int, int]) -> list[tuple[int, int]]:
    """Return height and width of an image after each stage, at most 7 in the end.

    84 x 84 becomes 42, 21 and 7, 64 x 64 becomes 32, 16, 8 and 4. Even sizes are halved, odd
    multiples of 3 divided by 3, others halved and rounded up.
    """
    sizes: list[tuple[int, int]] = []
    while not sizes or max(size) > _SMALLEST:
        height, width = (math.ceil(n / _stride(n)) for n in size)
        size = (height, width)
        sizes.append(size)
    return sizes


def _stride(pixels: int) -> int:
    if pixels <= _SMALLEST:
        return 1
    return 3 if pixels % 2 and pixels % 3 == 0 else 2


def stage_channels(depth: int, num_stages: int) -> list[int]:
    """Return the channels after each stage."""
    return [depth * _WIDTHS[min(stage, len(_WIDTHS) - 1)] for stage in range(num_stages)]


class ImageTokens(nn.Module):
    """Convolutions over one image, `[..., *shape]`, to a vector `[..., width]`.

    Args:
        image: Shape and scale of the image.
        depth: Channels of the first convolution are twice as many.
        generator: Random stream of the initial weights.
    """

    def __init__(self, image: ImageSpec, depth: int, generator: torch.Generator | None = None):
        super().__init__()
        self.image = image
        sizes = stage_sizes(image.size)
        channels = [image.num_channels, *stage_channels(depth, len(sizes))]
        strides = [tuple(map(_stride, before)) for before in [image.size, *sizes[:-1]]]
        self.stages = nn.ModuleList(
            _conv(channels[i], channels[i + 1], stride, generator)
            for i, stride in enumerate(strides)
        )
        self.norms = nn.ModuleList(ChannelNorm(width) for width in channels[1:])
        self.width = channels[-1] * math.prod(sizes[-1])

    def forward(self, images: Tensor) -> Tensor:
        x = squeezed(images, self.image) - (0.5 if _is_bounded(self.image) else 0.0)
        leading = x.shape[:-3]
        x = x.flatten(0, -4)
        for stage, norm in zip(self.stages, self.norms, strict=True):
            x = silu(norm(stage(x).to(x.dtype)))
        return x.flatten(1).reshape(*leading, self.width)


class ImageDecoder(nn.Module):
    """From features `[..., num_inputs]` to one image, as `squeezed` has it, `[..., C, H, W]`.

    Args:
        num_inputs: Width of the features.
        image: Shape and scale of the image.
        depth: As that of the encoder.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_inputs: int,
        image: ImageSpec,
        depth: int,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.image = image
        sizes = stage_sizes(image.size)
        channels = stage_channels(depth, len(sizes))
        self._smallest = (channels[-1], *sizes[-1])
        self._sizes = [*sizes[-2::-1], image.size]
        self.spread = Normed(num_inputs, math.prod(self._smallest), generator)
        widths = [*channels[::-1], image.num_channels]
        self.stages = nn.ModuleList(
            _conv(widths[i], widths[i + 1], (1, 1), generator) for i in range(len(sizes))
        )
        self.norms = nn.ModuleList(ChannelNorm(width) for width in widths[1:-1])

    def forward(self, features: Tensor) -> Tensor:
        leading = features.shape[:-1]
        x = self.spread(features.flatten(0, -2)).unflatten(1, self._smallest)
        for i, (stage, size) in enumerate(zip(self.stages, self._sizes, strict=True)):
            assert isinstance(stage, nn.Conv2d)
            x = enlarged(stage, x, size).to(x.dtype)
            if i < len(self.norms):
                x = silu(self.norms[i](x))
        x = x.sigmoid() if _is_bounded(self.image) else x
        return x.unflatten(0, leading)


def enlarged(layer: nn.Conv2d, x: Tensor, size: tuple[int, int]) -> Tensor:
    """Return `layer(interpolate(x, size))`, to rounding, `[B, C, *size]`.

    Of a doubled image the convolution sees each pixel up to nine times. What it multiplies it by is
    summed first, apart for even and odd rows and columns, which the small image's convolution gives
    side by side: 36 products in the place of 100.

    Args:
        layer: A convolution by 5 x 5 that keeps the size.
        x: Images, `[B, C, H, W]`.
        size: Height and width that they are enlarged to.
    """
    height, width = x.shape[-2:]
    if tuple(size) != (2 * height, 2 * width):
        enlarged_first: Tensor = layer(interpolate(x, size=size))
        return enlarged_first
    shares = torch.tensor(_SHARES, dtype=x.dtype, device=x.device)
    weight = torch.einsum("pak,qbl,oikl->opqiab", shares, shares, layer.weight).flatten(0, 2)
    assert layer.bias is not None
    return pixel_shuffle(conv2d(x, weight, layer.bias.repeat_interleave(4), padding=1), 2)


class ChannelNorm(nn.Module):
    """RMSNorm over the channels of `[B, C, H, W]`, each pixel by itself."""

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return scaled_to_one(x, self.scale.view(-1, 1, 1), 1)


def squeezed(images: Tensor, image: ImageSpec) -> Tensor:
    """Return images `[..., *shape]` as what is seen and predicted, `[..., C, H, W]`.

    Bytes become [0, 1]; of floats, whose range nobody knows, it is the symlog.
    """
    first = images if image.channels_first else images.movedim(-1, -3)
    pixels = first.to(torch.float32)
    return pixels / image.scale if _is_bounded(image) else symlog(pixels)


def unsqueezed(pixels: Tensor, image: ImageSpec) -> Tensor:
    """Return the images that `squeezed` made `[..., C, H, W]` of, `[..., *shape]`."""
    values = pixels * image.scale if _is_bounded(image) else symexp(pixels)
    return values if image.channels_first else values.movedim(-3, -1)


def _is_bounded(image: ImageSpec) -> bool:
    return image.scale != 1.0


def _conv(
    num_inputs: int,
    num_outputs: int,
    stride: tuple[int, ...],
    generator: torch.Generator | None,
) -> nn.Conv2d:
    layer = undrawn(nn.Conv2d, num_inputs, num_outputs, _KERNEL, stride, padding=_KERNEL // 2)
    initialize(layer.weight, num_inputs * _KERNEL**2, 1.0, generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
