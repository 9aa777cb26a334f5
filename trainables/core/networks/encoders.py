"""From features to one vector: hidden layers, behind convolutions if there are images."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import VECTOR, Features, FeatureSpec
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.networks.layers import Layers, linear_layer, mlp


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


def make_encoder(
    spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None = None
) -> Encoder:
    """Return the encoder of what a specification describes, or the `custom_model` of the settings.

    Raises:
        ConfigError: if settings of images are given and there are none, or if a custom model
            cannot be made.
    """
    if settings.custom_model is not None:
        custom: Encoder = feature("networks").custom(spec, settings, generator)
        return custom
    if spec.images:
        images: Encoder = feature("networks").images(spec, settings, generator)
        return images
    if spec.num_features == 0:
        raise ConfigError("the observation holds nothing that a network could see")
    for name in ("conv_filters", "conv_activation", "scale_images"):
        value = getattr(settings, name)
        if value != ModelConfig.settings()[name].default:
            raise ConfigError(
                f"model setting {name} = {value!r} has no effect: the observation has no image"
            )
    return VectorEncoder(*hidden_layers(spec.num_features, settings, generator))


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


def hidden_layers(
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
