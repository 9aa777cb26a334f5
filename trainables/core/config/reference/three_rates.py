"""`optimization_config`: the older way to give SAC's three learning rates, as one dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.reference.defaults import yields
from trainables.core.errors import ConfigError

_SETTINGS = {
    "actor_learning_rate": "actor_lr",
    "critic_learning_rate": "critic_lr",
    "entropy_learning_rate": "alpha_lr",
}
COMPOSITE = {"optimization_config": ", ".join(_SETTINGS.values())}
"""What the dict stands for, by its name."""


def settings_given(rates: Any) -> list[tuple[str, ...]]:
    """Return the paths of the settings that a value of the dict gives."""
    names = rates if isinstance(rates, Mapping) else {}
    return [(_SETTINGS[name],) for name in names if name in _SETTINGS]


def with_single_rates(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a setting for each rate in the place of the dict.

    Raises:
        ConfigError: for an unknown rate, or one that is given twice with different values.
    """
    given = dict(values)
    rates: Any = {}
    for older in ("optimization", "optimization_config"):
        rates = given.pop(older, None) or rates
    if not isinstance(rates, Mapping):
        raise ConfigError(f"optimization_config = {rates!r} is not allowed; allowed: a dict")
    for name, rate in rates.items():
        if name not in _SETTINGS:
            raise ConfigError(
                f"optimization_config: {name!r} is unknown; known: {', '.join(_SETTINGS)}"
            )
        if yields(name, rate, values):
            continue
        if given.get(_SETTINGS[name], rate) != rate:
            raise ConfigError(
                f"{_SETTINGS[name]!r} is given twice with different values: also as {name} in "
                "optimization_config"
            )
        given[_SETTINGS[name]] = rate
    return given
