"""Other libraries' names as a feature: asked only where a name or a value is none of a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainables.core.config.reference import (
    compatibility,
    defaults,
    name_hints,
    other_libraries,
    planned,
    translation,
    trial_names,
    uncalled_hooks,
    who_has,
    worker_calls,
)
from trainables.core.config.reference.default_config import DefaultConfig
from trainables.core.features import Feature


class Reference(Feature):
    """Knows the names of the reference API, of its older generation and of other libraries."""

    def worker_call(self, group: Any, name: str) -> Any:
        """Return a method of a group of workers; see `CallsWorkers`."""
        return worker_calls.worker_call(group, name)

    def with_one_name_each(self, config_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a trial, each setting by one name; see `trial_names`."""
        return trial_names.with_one_name_each(config_class, values)

    def merged(
        self,
        config_class: Any,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        *,
        any_name: bool,
    ) -> dict[str, Any]:
        """Return settings with others on top; see `Algorithm.merge_algorithm_configs`."""
        return trial_names.merged(config_class, first, second, any_name)

    def called_now(self, name: str) -> str:
        """Return the name of the setting that an older name is for; another name as it is."""
        return compatibility.ALIASES.get(name, name)

    def is_older_place(self, name: str, section: str) -> bool:
        """Tell whether the reference has an older name in another section than its setting is."""
        return compatibility.ALIAS_SECTIONS.get(name) == section

    def with_entries(
        self, config_class: Any, values: Mapping[str, Any], present: Any
    ) -> dict[str, Any]:
        """Return values with those that stand for entries of dicts in the dicts."""
        return translation.with_entries(config_class, values, present)

    def canonical(self, config_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by names of settings, without those that ask for nothing.

        Raises:
            ConfigError: for a name that is none, or is not supported.
        """
        return translation.canonical(config_class, values)

    def composed(self, config_class: Any, name: str, value: Any) -> list[tuple[str, ...]]:
        """Return paths of the settings that one of `composites` stands for with this value."""
        return translation.composed(config_class, name, value)

    def section_of(self, config_class: Any, name: str) -> str | None:
        """Return the section that a name belongs to, None if it is unknown."""
        return translation.section_of(config_class, name)

    def known_names(self, config_class: Any) -> list[str]:
        """Return the names that are offered as the nearest to a misspelt one."""
        return translation.known_names(config_class)

    def unknown_names(self, config_class: Any, names: Iterable[str]) -> set[str]:
        """Return the names that nobody knows."""
        return translation.unknown_names(config_class, names)

    def is_default(self, name: str, value: Any) -> bool:
        """Tell whether the reference has a value by default, so that it asks for nothing."""
        return defaults.is_default(name, value)

    def is_model_default(self, name: str, value: Any) -> bool:
        """Return the same for a key of `model`."""
        return defaults.is_model_default(name, value)

    def hint(self, config_class: Any, name: str) -> str | None:
        """Return in words what a name that is no setting is here; None if nobody has it."""
        found = name_hints.setting_hint(config_class, name)
        return None if found is None else found.words

    def inside(self, settings: str, name: str) -> str | None:
        """Return what another library's name inside a dict of settings is here."""
        return other_libraries.INSIDE[settings].get(name)

    def why_refused(self, name: str) -> str:
        """Return why a name is refused."""
        return compatibility.REFUSED[name].why

    def algorithms_where(self, holds: Callable[[Any], bool]) -> str:
        """Return the algorithms of whose config classes something holds, as a list in words."""
        return who_has.algorithms_where(holds)

    def whats_become_of(self, name: str) -> str | None:
        """Return what becomes of an algorithm or feature that is not here."""
        return planned.whats_become_of(name)

    def default_config(self, config_class: Any) -> dict[str, Any]:
        """Return all settings of a config class as a dict that takes older names."""
        return DefaultConfig(config_class().to_dict())

    def attribute(self, config: Any, name: str) -> Any:
        """Return an attribute of a config by an older name.

        Raises:
            AttributeError: if it has none, with the reason.
        """
        if name in compatibility.ALIASES:
            return getattr(config, compatibility.ALIASES[name])
        if name in other_libraries.SETTINGS:
            kind = type(config)
            raise AttributeError(f"{kind.__name__}.{name} does not exist{kind.hint(name)}")
        raise compatibility.missing_attribute(type(config), name)

    def missing_attribute(self, owner: type, name: str) -> AttributeError:
        """Return the error for an attribute that is not there."""
        return compatibility.missing_attribute(owner, name)

    def refuse_uncalled(self, given: type, kind: str) -> None:
        """Refuse a class that defines methods which nothing calls.

        Raises:
            ConfigError: naming the class, each method, and what to do instead.
        """
        uncalled_hooks.refuse_uncalled(given, getattr(uncalled_hooks, kind))


FEATURE = Reference()
