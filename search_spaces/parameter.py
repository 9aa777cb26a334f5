"""A searched setting, and the conditions under which it is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from search_spaces.domains import Domain

KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """Another setting must have one of these values.

    Attributes:
        path: The other setting's path in the config.
        values: Its values that will do.
    """

    path: KeyPath
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The other setting as written: `noisy`, `model.fcnet_activation`."""
        return ".".join(self.path)

    def holds(self, settings: Mapping[KeyPath, Any]) -> bool:
        """Tell whether it holds, given the active settings by path."""
        return self.path in settings and self.admits(settings[self.path])

    def admits(self, value: Any) -> bool:
        """Tell whether the other setting may have this value."""
        return any(same(value, mine) for mine in self.values)

    def __str__(self) -> str:
        """As in YAML: `noisy: true` reads `noisy: True`."""
        return f"{self.key}: {self.values[0] if len(self.values) == 1 else list(self.values)}"


def same(one: Any, other: Any) -> bool:
    """Tell whether settings are equal: `True` is not `1`, but `1.0` is; lists are tuples."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


@dataclass(frozen=True)
class Parameter:
    """One searched setting: its path in the config, its domain, and when it is searched."""

    path: KeyPath
    domain: Domain
    conditions: tuple[Condition, ...] = ()

    @property
    def key(self) -> str:
        """The setting as written: `lr`, `model.fcnet_activation`."""
        return ".".join(self.path)

    @property
    def name(self) -> str:
        """The searched parameter: the setting, or with a transform e.g. `one_minus_gamma`."""
        transform = self.domain.transform
        if transform is None:
            return self.key
        return ".".join((*self.path[:-1], transform.label.format(self.path[-1])))

    def given(self, conditions: tuple[Condition, ...]) -> Parameter:
        """Return the same setting under these conditions instead."""
        return replace(self, conditions=conditions)

    def active(self, settings: Mapping[KeyPath, Any]) -> bool:
        """Tell whether it is searched, given the settings that its conditions are on."""
        return all(condition.holds(settings) for condition in self.conditions)

    def to_dict(self) -> dict[str, Any]:
        """Return the YAML form."""
        entry = self.domain.to_dict()
        if self.conditions:
            entry["when"] = conditions_to_dict(self.conditions)
        return entry


def assign(config: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at a nested path, making the dicts on the way."""
    for key in path[:-1]:
        config = config.setdefault(key, {})
    config[path[-1]] = value


def conditions_to_dict(conditions: tuple[Condition, ...]) -> dict[str, Any]:
    """Return the YAML form, which `parse_conditions` reads."""
    return {
        c.key: c.values[0]
        if len(c.values) == 1 and not isinstance(c.values[0], list | tuple)
        else list(c.values)
        for c in conditions
    }
