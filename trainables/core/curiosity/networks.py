"""Networks from observations to the features of an intrinsic reward."""

from __future__ import annotations

from torch import nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import FeatureSpec
from trainables.core.networks.encoders import network

_DEFAULTS = {"fcnet_hiddens": [64], "fcnet_activation": "relu"}


def feature_network(
    spec: FeatureSpec, settings: ExplorationConfig, num_outputs: int | None = None
) -> nn.Sequential:
    """Return an encoder with a linear layer behind it, from features to `[…, num_outputs]`.

    Args:
        spec: What it sees.
        settings: The `exploration_config`, of which `feature_net_config` is the encoder.
        num_outputs: None: `feature_dim`.
    """
    given = settings.feature_net_config
    defaults = {} if given.get("custom_model") is not None else _DEFAULTS
    width = settings.feature_dim if num_outputs is None else num_outputs
    return network(spec, ModelConfig.of({**defaults, **given}), width)
