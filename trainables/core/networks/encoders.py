"""From features to one vector: hidden layers over the vector part and a CNN for each image."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.callables import resolve_callable
from trainables.core.config.conv_filters import check_filters, default_filters
from trainables.core.config.model import ModelConfig
from trainables.core.config.reference.uncalled_hooks import MODULE, refuse_uncalled
from trainables.core.data.features import VECTOR, Features, FeatureSpec, ImageSpec
from trainables.core.errors import ConfigError
from trainables.core.networks.layers import (
    Layers,
    activation_layer,
    initialize,
    linear_layer,
    mlp,
    seeded_layers,
    undrawn,
)

# Images that are evaluated at once where no gradient is needed: a rollout's float images and
# activations together would take gigabytes.
_CHUNK = 256


class Encoder(nn.Module, ABC):
    """A network from features with any leading dimensions to `[..., width]`.

    Attributes:
        width: Width of the output.
    """

    width: int

    @abstractmethod
    def forward(self, features: Features) -> Tensor:
        """Return one vector for each row of features, `[..., width]`."""


class VectorEncoder(Layers, Encoder):
    """Layers over the vector part; its parameters have the layers' own names, `0.weight`.

    Args:
        layers: Layers from `num_features` to `width`.
        width: Width of the output.
    """

    def __init__(self, layers: nn.Sequential, width: int):
        super().__init__(*layers)
        self.width = width

    def forward(self, features: Features) -> Tensor:
        # By its name: `features[VECTOR]` is there whenever there is a vector at all.
        return super().forward(features[VECTOR] if isinstance(features, dict) else features)


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
        self.hidden, self.width = _hidden_layers(num_inputs, settings, generator)

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


class CustomEncoder(Encoder):
    """A user's module in the place of an encoder.

    Args:
        model: A module with `width` and `forward(features) -> [..., width]`.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.width = model.width  # type: ignore[assignment]

    def forward(self, features: Features) -> Tensor:
        encoded = self.model(features)
        if encoded.shape[-1] != self.width:
            raise ConfigError(
                f"custom_model {type(self.model).__qualname__} gave {tuple(encoded.shape)}, but "
                f"its width is {self.width}"
            )
        return encoded


def make_encoder(
    spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None = None
) -> Encoder:
    """Return the encoder of what a specification describes, or the `custom_model` of the settings.

    Raises:
        ConfigError: if settings of images are given and there are none, or if a custom model
            cannot be made.
    """
    if settings.custom_model is not None:
        return _custom_encoder(spec, settings, generator)
    if spec.images:
        return ImagesEncoder(spec, settings, generator)
    if spec.num_features == 0:
        raise ConfigError("the observation holds nothing that a network could see")
    for name in ("conv_filters", "conv_activation", "scale_images"):
        value = getattr(settings, name)
        if value != ModelConfig.settings()[name].default:
            raise ConfigError(
                f"model setting {name} = {value!r} has no effect: the observation has no image"
            )
    return VectorEncoder(*_hidden_layers(spec.num_features, settings, generator))


def network(
    spec: FeatureSpec,
    settings: ModelConfig,
    num_outputs: int,
    output_gain: float = 1.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Return an encoder with a linear layer behind it, from features to `[..., num_outputs]`."""
    encoder = make_encoder(spec, settings, generator)
    output = linear_layer(
        encoder.width, num_outputs, output_gain, settings.fcnet_initializer, generator
    )
    if isinstance(encoder, VectorEncoder):
        return VectorEncoder(nn.Sequential(*encoder, output), num_outputs)
    return nn.Sequential(encoder, output)


def _hidden_layers(
    num_inputs: int, settings: ModelConfig, generator: torch.Generator | None
) -> tuple[nn.Sequential, int]:
    """Return the layers that `fcnet_hiddens` describes, and the width of their output."""
    hiddens = settings.fcnet_hiddens
    layers = mlp(
        num_inputs,
        hiddens,
        settings.fcnet_activation,
        initializer=settings.fcnet_initializer,
        generator=generator,
    )
    return layers, hiddens[-1] if hiddens else num_inputs


def _custom_encoder(
    spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None
) -> CustomEncoder:
    named: Any = settings.custom_model
    make = resolve_callable(named) if isinstance(named, str) else named
    what = f"custom_model = {getattr(named, '__qualname__', named)!r}"
    if not (inspect.isclass(make) and issubclass(make, nn.Module)):
        raise ConfigError(f"{what} is not allowed; allowed: a class of torch.nn.Module")
    refuse_uncalled(make, MODULE)
    try:
        inspect.signature(make).bind(spec, **settings.custom_model_config)
    except TypeError as error:
        raise ConfigError(
            f"{what} is made with the specification of the features and custom_model_config = "
            f"{settings.custom_model_config!r}: {error}"
        ) from None
    with seeded_layers(generator):
        model = make(spec, **settings.custom_model_config)
    width = getattr(model, "width", None)
    if not isinstance(width, int) or width < 1:
        raise ConfigError(f"{what}: its attribute width is {width!r}; allowed: int, >= 1")
    return CustomEncoder(model)
