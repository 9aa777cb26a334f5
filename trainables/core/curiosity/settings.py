"""What the options of intrinsic rewards, inside `exploration_config`, mean together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.model import ModelConfig, check_widths
from trainables.core.config.settings import is_search_domain
from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings

# What of `model` the networks of an intrinsic reward are made of.
_FEATURE_NET = (
    "fcnet_hiddens",
    "fcnet_activation",
    "fcnet_initializer",
    "conv_filters",
    "conv_activation",
    "scale_images",
    "custom_model",
    "custom_model_config",
)


class CuriositySettings(FeatureSettings):
    """The options of the types that reward a policy for what is new to it."""

    def check_options(self, checked: Mapping[str, Any]) -> None:
        """Check what the options of an intrinsic reward say inside.

        Args:
            checked: Of an `exploration_config`, by themselves checked.

        Raises:
            ConfigError: naming the option.
        """
        for name in ("inverse_net_hiddens", "forward_net_hiddens", "predictor_hiddens"):
            check_widths(f"exploration_config: {name}", checked.get(name))
        if checked.get("hash_bits") is not None and "cells_per_deviation" in checked:
            raise ConfigError(
                "exploration_config: cells_per_deviation has no effect with hash_bits, which says "
                "what the same state is; give one of them"
            )
        feature_net = checked.get("feature_net_config")
        if isinstance(feature_net, dict) and not is_search_domain(feature_net):
            check_feature_net(feature_net)
            if (
                "scale_images" in feature_net
                and checked.get("normalize_observations", True) is True
            ):
                raise ConfigError(
                    "exploration_config: feature_net_config: scale_images has no effect with "
                    "normalize_observations = True: pixels are seen by their means and deviations"
                )


def check_feature_net(given: Mapping[str, Any]) -> None:
    """Check a `feature_net_config`.

    Raises:
        ConfigError: for what is no setting of its layers.
    """
    try:
        checked = ModelConfig.check(given)
        ModelConfig.check_given(checked, ("fcnet_activation",))
    except ConfigError as error:
        raise ConfigError(f"exploration_config: feature_net_config: {error}") from None
    for name in checked:
        if name not in _FEATURE_NET:
            raise ConfigError(
                f"exploration_config: feature_net_config: {name!r} is none of its settings; "
                f"allowed: {', '.join(_FEATURE_NET)}"
            )


SETTINGS = CuriositySettings()
