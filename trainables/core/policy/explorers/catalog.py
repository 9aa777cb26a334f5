"""The explorer of each type of exploration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.distributions.build import Distribution
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.errors import ConfigError
from trainables.core.policy.explorers.explorers import (
    Explorer,
    GaussianNoise,
    OrnsteinUhlenbeckNoise,
)
from trainables.core.policy.explorers.parameter_noise import ParameterNoise

_EXPLORERS: dict[str, type[Explorer]] = {
    "GaussianNoise": GaussianNoise,
    "OrnsteinUhlenbeckNoise": OrnsteinUhlenbeckNoise,
    "ParameterNoise": ParameterNoise,
}


def make_explorer(
    exploration: ExplorationConfig | Mapping[str, Any],
    distribution: Distribution,
    is_recurrent: bool = False,
) -> Explorer:
    """Return the explorer of an `exploration_config`.

    Args:
        exploration: The type and its options.
        distribution: Of the actions.
        is_recurrent: Whether the network that acts keeps a state.

    Raises:
        ConfigError: for options that are not allowed, or a type that these actions cannot have.
    """
    settings = ExplorationConfig.of(exploration)
    if settings.type in ("EpsilonGreedy", "SoftQ"):
        if not isinstance(distribution, EpsilonGreedy):
            raise ConfigError(
                f"exploration_config: type = {settings.type!r} needs the values of discrete "
                "actions; this policy has none"
            )
        if settings.type == "SoftQ":
            distribution.temperature = settings.temperature
    if settings.type == "ParameterNoise" and is_recurrent:
        raise ConfigError(
            "exploration_config: type = 'ParameterNoise' compares actions on single replayed "
            "observations; a recurrent model acts on sequences; use another type"
        )
    return _EXPLORERS.get(settings.type or "", Explorer)(settings, distribution)
