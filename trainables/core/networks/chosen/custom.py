"""A user's module in the place of an encoder, as `custom_model` names it."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import Features, FeatureSpec
from trainables.core.errors import ConfigError
from trainables.core.networks.encoders import Encoder
from trainables.core.networks.layers import seeded_layers


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


def custom_encoder(
    spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None
) -> CustomEncoder:
    """Return the encoder that `custom_model` names.

    Args:
        spec: The features' description, which the module is made of.
        settings: The model's settings.
        generator: Random stream of its initial weights.

    Raises:
        ConfigError: if it is no module, takes other arguments, or does not say its width.
    """
    named: Any = settings.custom_model
    make = resolve_callable(named) if isinstance(named, str) else named
    what = f"custom_model = {getattr(named, '__qualname__', named)!r}"
    if not (inspect.isclass(make) and issubclass(make, nn.Module)):
        raise ConfigError(f"{what} is not allowed; allowed: a class of torch.nn.Module")
    refuse_uncalled(make, "MODULE")
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
