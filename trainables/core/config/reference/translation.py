"""Names that are no settings here, as settings: older ones, and those of the reference."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from trainables.core.config.policies import OLDER_DICT, MultiAgentSettings
from trainables.core.config.reference import compatibility, three_rates
from trainables.core.config.reference import defaults as reference_defaults
from trainables.core.config.reference.learner_dict import without_learner_dict
from trainables.core.config.reference.who_has import who_has
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion

OLDER_LIST = "input_evaluation"
"""The older name of a list of estimators."""
_PLAYED = "simulation"  # which evaluations do anyway


def with_entries(
    config_class: Any, values: Mapping[str, Any], present: Any = None
) -> dict[str, Any]:
    """Return values with those that stand for others, or for entries of dicts, in their places.

    Args:
        config_class: The config class that they are for.
        values: By the names that they were given under.
        present: The config so far, the dicts' other entries of which stay; None: there is none.

    Raises:
        ConfigError: if an entry is given by both names, with different values.
    """
    values = without_learner_dict(without_older_list(without_older_dict(values)), present)
    given = dict(values)
    found: dict[str, dict[str, Any]] = {}
    for name in filter(values.__contains__, config_class.older_entries):
        outer, inner = config_class.older_entries[name]
        found.setdefault(outer, {})[inner] = given.pop(name)
    for outer, own in found.items():
        for name, value in (given.get(outer) or {}).items():
            if own.setdefault(name, value) != value:
                raise ConfigError(f"{outer}: {name!r} is given twice with different values")
        given[outer] = {**getattr(present, outer, {}), **own}
    return given


def composed(config_class: Any, name: str, value: Any) -> list[tuple[str, ...]]:
    """Return paths of the settings that one of `composites` stands for with this value."""
    if name in config_class.older_entries:
        return [config_class.older_entries[name]]
    return three_rates.settings_given(value) if name in three_rates.COMPOSITE else []


def canonical(config_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Map older names, drop what is always so, refuse what is not supported.

    Raises:
        ConfigError: naming what is no setting, or what is given twice with different values.
    """
    if three_rates.COMPOSITE.keys() <= config_class.composites.keys():
        values = three_rates.with_single_rates(values)
    known = config_class.settings()
    found: dict[str, Any] = {}
    # `lr_schedule` and its like come last: where both are given, the schedule is what is meant.
    for name in sorted(values, key=lambda name: str(name).endswith("_schedule")):
        value, target = values[name], compatibility.ALIASES.get(name, name)
        if _asks_for_nothing(config_class, name, value, values):
            continue
        if target in known:
            is_schedule = str(name).endswith("_schedule")
            if is_schedule and value is None:
                continue
            if target in found and found[target] != value and not is_schedule:
                raise ConfigError(f"{target!r} is given twice with different values")
            found[target] = value
        elif name in compatibility.CONSTANTS:
            _check_constant(name, value)
        elif name in compatibility.PLANNED:
            planned = compatibility.PLANNED[name].feature
            raise ConfigError(f"{name} = {value!r} is not supported yet ({planned})")
        elif name in compatibility.REFUSED:
            raise ConfigError(f"{name} is not supported: {compatibility.REFUSED[name].why}")
        elif having := who_has(target):
            algorithm = config_class.__name__.removesuffix("Config")
            what = f"{name} = {value!r} is no setting of {algorithm}"
            raise ConfigError(f"{what}; it belongs to {having}")
        else:
            raise config_class.unknown(str(name))
    return found


def _asks_for_nothing(config_class: Any, name: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Tell whether a value is the reference's default of what does nothing here; see there."""
    target = compatibility.ALIASES.get(name, name)
    if reference_defaults.says_nothing(name, value):
        return True
    if target not in config_class.settings():
        return reference_defaults.is_default(name, value)
    if reference_defaults.yields(name, value, values):
        return True
    return target in config_class.without and reference_defaults.is_default(target, value)


def _check_constant(name: str, value: Any) -> None:
    constant = compatibility.CONSTANTS[name]
    if value is None or value == constant.value:
        return
    if isinstance(constant.value, dict) and value == {}:
        return
    raise ConfigError(
        f"{name} = {value!r} is not supported{' yet' if constant.later else ''}; it is always "
        f"{constant.value!r} here: {constant.why}"
    )


def known_names(config_class: Any) -> list[str]:
    """Return the names offered as the nearest to a misspelt one: settings, and older names."""
    having = config_class.settings().keys() - config_class.without
    older = (old for old, new in compatibility.ALIASES.items() if new in having)
    return [*filter(having.__contains__, config_class.settings()), *older]


def unknown_names(config_class: Any, names: Iterable[str]) -> set[str]:
    """Return those that are no setting of any algorithm, nor any name of the reference's."""
    tables: tuple[Container[str], ...] = (
        config_class.settings(),
        config_class.composites,
        compatibility.ALIASES,
        compatibility.COMPOSITES,
        compatibility.CONSTANTS,
        compatibility.PLANNED,
        compatibility.REFUSED,
    )
    unknown = {name for name in names if not any(name in table for table in tables)}
    return {name for name in unknown if not who_has(name)}


def section_of(config_class: Any, name: str) -> str | None:
    """Return the section that a name belongs to, None if it is unknown."""
    target = compatibility.ALIASES.get(name, name)
    tables: tuple[Mapping[str, Any], ...] = (
        config_class.settings(),
        compatibility.COMPOSITES,
        compatibility.CONSTANTS,
        compatibility.PLANNED,
        compatibility.REFUSED,
    )
    return next((str(table[target].section) for table in tables if target in table), None)


def without_older_dict(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values with the settings of the older dict `multiagent` in its place.

    The reference's defaults in it, or beside it, give way to what is given in the other place.

    Raises:
        ConfigError: for what is no setting of the section, or is given twice with different values.
    """
    if OLDER_DICT not in values:
        return values
    found = dict(values)
    older = found.pop(OLDER_DICT)
    known = [n for n, s in MultiAgentSettings.settings().items() if s.section == "multi_agent"]
    if older is not None and not isinstance(older, Mapping):
        raise ConfigError(f"{OLDER_DICT} = {older!r} is not allowed; allowed: a dict of settings")
    for name, value in (older or {}).items():
        if name not in known:
            hint = suggestion(name, known)
            raise ConfigError(f"unknown setting {name!r} in {OLDER_DICT}{hint}")
        if name in found and reference_defaults.is_default(name, value):
            continue
        if (
            name in found
            and not reference_defaults.is_default(name, found[name])
            and found[name] != value
        ):
            raise ConfigError(f"{name!r} is given twice with different values: also in multiagent")
        found[name] = value
    return found


def without_older_list(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values with estimators in the place of the older list `input_evaluation`.

    Raises:
        ConfigError: for what is none, or if they are given by both names.
    """
    if OLDER_LIST not in values:
        return values
    found = dict(values)
    given = found.pop(OLDER_LIST)
    if not given or reference_defaults.is_default(OLDER_LIST, given):
        return found
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise _not_a_list(given)
    older = {name: {"type": name} for name in names if name != _PLAYED}
    newer = found.get("off_policy_estimation_methods") or older
    if older and newer != older:
        raise ConfigError(
            "'off_policy_estimation_methods' is given twice with different values: also as "
            f"{OLDER_LIST} = {given!r}"
        )
    return {**found, "off_policy_estimation_methods": newer}


def _not_a_list(given: Any) -> ConfigError:
    return ConfigError(
        f"{OLDER_LIST} = {given!r} is not allowed; allowed: a list of 'is', 'wis', 'dm', 'dr', or "
        "off_policy_estimation_methods in its place"
    )
