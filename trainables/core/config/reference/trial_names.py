"""The names in a trial's dict, and in configs that are merged: each setting by one of its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.reference import compatibility, translation


def with_one_name_each(config_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a trial, each setting by one name: of two names the later one counts.

    Args:
        config_class: Says which settings may change in mid-run: of others both names stay.
        values: A trial's dict, in the order in which it was filled.
    """
    values = _without_composed(config_class, values)
    last = {_called_now(name): name for name in values if not _is_schedule(name)}
    return {
        name: value
        for name, value in values.items()
        if _is_schedule(name)
        or last[target := _called_now(name)] == name
        or target not in config_class.settings()
        or config_class.why_fixed((target,)) is not None
    }


def merged(
    known: Any,
    config1: Mapping[str, Any],
    config2: Mapping[str, Any],
    allow_unknown: bool,
) -> dict[str, Any]:
    """Return `config1` with `config2` on top; see `Algorithm.merge_algorithm_configs`."""
    made: dict[str, Any] = {}
    for config in (config1, config2):
        strange = known.unknown_names(config) if allow_unknown else set()
        values = known.check({n: v for n, v in config.items() if n not in strange})
        for name, value in (values | {n: config[n] for n in strange}).items():
            both = isinstance(value, dict) and isinstance(made.get(name), dict)
            made[name] = {**made[name], **value} if both else value
    return made


def _without_composed(config_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that a later name stands for among others."""
    kept, order = dict(values), list(values)
    for name in filter(kept.__contains__, config_class.composites):
        for outer, *inner in translation.composed(config_class, name, values[name]):
            is_later = outer in kept and order.index(outer) < order.index(name)
            if not is_later or config_class.why_fixed((outer, *inner)) is not None:
                continue
            if inner and isinstance(kept[outer], dict):
                kept[outer] = {k: v for k, v in kept[outer].items() if k != inner[0]}
            elif not inner:
                del kept[outer]
    return kept


def _called_now(name: str) -> str:
    return compatibility.ALIASES.get(name, name)


def _is_schedule(name: str) -> bool:
    return str(name).endswith("_schedule")
