"""Convolutions of an image as the setting `conv_filters` gives them, and those it has by default.

Without padding, as in Mnih et al. (2015): what a filter makes of a side is
`(side - kernel) // stride + 1`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings

_Pair = tuple[int, int]


class ConvFilter(NamedTuple):
    """A convolution: its output channels, kernel and stride, each (vertical, horizontal)."""

    channels: int
    kernel: _Pair
    stride: _Pair

    def output_size(self, size: _Pair) -> _Pair:
        """Height and width of what it makes of an image; below 1 if it does not fit."""
        height, width = (
            (side - kernel) // stride + 1
            for side, kernel, stride in zip(size, self.kernel, self.stride, strict=True)
        )
        return height, width


# By the longer side of the image; the last is that of Mnih et al. (2015), for 84 x 84.
_DEFAULTS: tuple[tuple[int, list[list[int]]], ...] = (
    (7, [[16, 2, 1], [32, 2, 1], [64, 2, 1]]),  # MiniGrid's view
    (12, [[16, 3, 1]]),  # MinAtar (Young and Tian, 2019)
    (24, [[16, 3, 1], [32, 3, 2]]),
    (56, [[32, 4, 2], [64, 4, 2], [64, 3, 1]]),
)
_NATURE = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]
_LARGEST_OUTPUT = 12  # sides above it are halved again, or the next layer would be huge


def check_filters(filters: list[Any]) -> list[ConvFilter]:
    """Return the filters that a list `[[channels, kernel, stride], …]` describes.

    Kernel and stride are a number each, or a pair of vertical and horizontal.

    Raises:
        ConfigError: naming the filter that is none.
    """
    return [_filter(item) for item in filters]


def _filter(item: Any) -> ConvFilter:
    if isinstance(item, (list, tuple)) and len(item) == 3:
        channels, kernel, stride = item
        if _is_count(channels) and _is_side(kernel) and _is_side(stride):
            return ConvFilter(channels, _pair(kernel), _pair(stride))
    raise ConfigError(
        f"conv_filters: {item!r} is not allowed; allowed: [channels, kernel, stride], each at "
        "least 1, kernel and stride a number or [vertical, horizontal]"
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_side(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) == 2 and all(map(_is_count, value))
    return _is_count(value)


def _pair(value: Any) -> _Pair:
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def default_filters(size: _Pair) -> list[ConvFilter]:
    """Return filters for an image of a height and width from 1 x 1 up, which always fit it."""
    longest = max(size)
    chosen = next((filters for limit, filters in _DEFAULTS if longest <= limit), _NATURE)
    filters = []
    for channels, kernel, stride in chosen:
        filters.append(_clipped(channels, kernel, stride, size))
        size = filters[-1].output_size(size)
    while max(size) > _LARGEST_OUTPUT:
        filters.append(_clipped(64, 4, 2, size))
        size = filters[-1].output_size(size)
    return filters


def _clipped(channels: int, kernel: int, stride: int, size: _Pair) -> ConvFilter:
    """Return a filter whose kernel and stride are no longer than the image."""
    kernels = min(kernel, size[0]), min(kernel, size[1])
    return ConvFilter(channels, kernels, (min(stride, kernels[0]), min(stride, kernels[1])))


class NetworkSettings(FeatureSettings):
    """Settings of networks that only some observations need."""

    def check_filters(self, filters: list[Any]) -> None:
        """Check the filters of convolutions.

        Raises:
            ConfigError: naming the filter that is none.
        """
        check_filters(filters)


SETTINGS = NetworkSettings()
