"""What an algorithm has and does without, as its config class says it: checks that follow."""

from __future__ import annotations

from typing import Any

from trainables.core.config.exploration import (
    INTRINSIC_OPTIONS,
    OPTIONS,
    how_actions_are_chosen,
    is_intrinsic,
)
from trainables.core.config.model import MEMORIES, ModelConfig
from trainables.core.config.settings import Settings, is_search_domain
from trainables.core.errors import ConfigError
from trainables.core.features import feature


def _algorithm(config_class: Any) -> str:
    """Return the algorithm's name, for messages."""
    return str(config_class.__name__).removesuffix("Config")


def check_traits(config_class: Any, checked: dict[str, Any]) -> dict[str, Any]:
    """Return checked settings, their dicts checked, as far as the algorithm has them.

    Raises:
        ConfigError: for what would be ignored, or is not possible with the algorithm.
    """
    for name, value in checked.items():
        _check_has_effect(config_class, name, value)
        nested = config_class.nested_settings().get(name)
        if nested is not None and isinstance(value, dict) and not is_search_domain(value):
            checked[name] = _without_defaults(config_class, nested, nested.check(value))
        if nested is ModelConfig:
            _check_model(config_class, checked[name])
    _check_exploration(config_class, checked.get("exploration_config"))
    return checked


def _check_has_effect(config_class: Any, name: str, value: Any) -> None:
    """Refuse what would be accepted and ignored; the default passes, as in a round trip."""
    if name in config_class.without and value != config_class.settings()[name].default:
        raise ConfigError(
            f"{name} = {value!r} has no effect on {_algorithm(config_class)}: "
            f"{config_class.without[name]}"
        )


def _without_defaults(
    config_class: Any, nested: type[Settings], values: dict[str, Any]
) -> dict[str, Any]:
    """Return a checked `model` dict without the reference's defaults that do nothing here."""
    if nested is not ModelConfig:
        return values
    without = config_class.model_without
    return {
        name: value
        for name, value in values.items()
        if name not in without or not feature("reference").is_model_default(name, value)
    }


def _check_model(config_class: Any, model: Any) -> None:
    """Refuse what would be ignored, or what the algorithm cannot train, in a `model` dict."""
    if not isinstance(model, dict):
        return
    for name in model:
        if name in config_class.model_without:
            raise ConfigError(
                f"model setting {name!r} has no effect on {_algorithm(config_class)}: "
                f"{config_class.model_without[name]}"
            )
    for name in MEMORIES:
        if config_class.without_memory is not None and model.get(name):
            raise ConfigError(
                f"model setting {name} = {model[name]!r} is not possible with "
                f"{_algorithm(config_class)}: {config_class.without_memory}"
            )
    ModelConfig.check_given(model, config_class._custom_model_replaces)


def _check_exploration(config_class: Any, given: Any) -> None:
    if not isinstance(given, dict) or is_search_domain(given):
        return
    if is_intrinsic(given):
        _check_intrinsic(config_class, given)
    acting = how_actions_are_chosen(given)
    kind = acting.get("type")
    if isinstance(kind, str) and kind not in config_class.exploration_types:
        raise ConfigError(
            f"exploration_config: type = {kind!r} is not supported by {_algorithm(config_class)}: "
            f"{config_class.why_no_exploration}; allowed: {', '.join(_own_types(config_class))}"
        )
    for name in acting:
        why = why_no_option(config_class, name)
        if why is not None:
            raise ConfigError(f"exploration_config: {name!r}: {why}")
    if config_class.uses_logp and acting.get("random_timesteps"):
        raise ConfigError(
            f"exploration_config: random_timesteps = {acting['random_timesteps']!r} is not "
            f"supported by {_algorithm(config_class)}: {config_class.why_no_exploration}"
        )


def _own_types(config_class: Any) -> tuple[str, ...]:
    """Return the types of `exploration_config` that the algorithm can have."""
    intrinsic = () if config_class.why_no_intrinsic else tuple(INTRINSIC_OPTIONS)
    return (*config_class.exploration_types, *intrinsic)


def _check_intrinsic(config_class: Any, given: dict[str, Any]) -> None:
    if config_class.why_no_intrinsic is not None:
        raise ConfigError(
            f"exploration_config: type = {given['type']!r} is not supported by "
            f"{_algorithm(config_class)}: {config_class.why_no_intrinsic}; allowed: "
            f"{', '.join(config_class.exploration_types)}"
        )
    for name, why in config_class.intrinsic_without.items():
        if given.get(name) is not None:
            raise ConfigError(
                f"exploration_config: {name} = {given[name]!r} is not supported by "
                f"{_algorithm(config_class)}: {why}; leave it out"
            )


def why_no_option(config_class: Any, name: str) -> str | None:
    """Return why an option of `exploration_config` is none of the algorithm's, or None."""
    if name in config_class.intrinsic_without and not config_class.why_no_intrinsic:
        why = config_class.intrinsic_without[name]
        return f"it is not supported by {_algorithm(config_class)}: {why}"
    options = {option for kind in _own_types(config_class) for option in OPTIONS[kind]}
    if name in ("type", *options):
        return None
    return f"{_algorithm(config_class)} does not explore so: {config_class.why_no_exploration}"


def why_not_inside(config_class: Any, outer: str, inner: str) -> str | None:
    """Return why the algorithm does without a setting inside a dict of them, or None."""
    if outer == "exploration_config":
        return why_no_option(config_class, inner)
    if outer == "model" and inner in config_class.model_without:
        return (
            f"it has no effect on {_algorithm(config_class)}: {config_class.model_without[inner]}"
        )
    if outer == "model" and inner in MEMORIES and config_class.without_memory is not None:
        return f"it is not possible with {_algorithm(config_class)}: {config_class.without_memory}"
    return None
