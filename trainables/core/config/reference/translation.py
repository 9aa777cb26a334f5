"""Which names a config takes: its settings', older ones, and those that are refused by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from trainables.core.config.own_settings import how_to_declare
from trainables.core.config.reference import compatibility
from trainables.core.config.reference import defaults as reference_defaults
from trainables.core.config.reference.name_hints import setting_hint
from trainables.core.config.reference.other_libraries import SETTINGS
from trainables.core.config.reference.who_has import who_has
from trainables.core.config.settings import Settings
from trainables.core.errors import ConfigError


class TakesOlderNames(Settings):
    """Part of `AlgorithmConfig`: names of the reference and of its older generation.

    Those that are no settings here are in `core.config.reference.compatibility`.
    """

    # Older names that stand for several settings, or for an entry of a dict of them, with these.
    composites: ClassVar[dict[str, str]] = {}
    # Those of an entry: the setting that is a dict, and the name in it.
    older_entries: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def composed(cls, name: str, value: Any) -> list[tuple[str, ...]]:
        """Return paths of the settings that one of `composites` stands for with this value."""
        return [cls.older_entries[name]] if name in cls.older_entries else []

    @classmethod
    def _with_entries(cls, values: Mapping[str, Any], present: Any = None) -> dict[str, Any]:
        """Return values with those of `older_entries` in the dicts that they belong to.

        Args:
            values: By the names that they were given under.
            present: The config so far, the dicts' other entries of which stay; None: there is none.

        Raises:
            ConfigError: if an entry is given by both names, with different values.
        """
        given = dict(values)
        found: dict[str, dict[str, Any]] = {}
        for name in filter(values.__contains__, cls.older_entries):
            outer, inner = cls.older_entries[name]
            found.setdefault(outer, {})[inner] = given.pop(name)
        for outer, own in found.items():
            for name, value in (given.get(outer) or {}).items():
                if own.setdefault(name, value) != value:
                    raise ConfigError(f"{outer}: {name!r} is given twice with different values")
            given[outer] = {**getattr(present, outer, {}), **own}
        return given

    @classmethod
    def _algorithm(cls) -> str:
        """Return the algorithm's name, for messages."""
        return cls.__name__.removesuffix("Config")

    @classmethod
    def _canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Map older names, drop what is always so, refuse what is not supported."""
        canonical: dict[str, Any] = {}
        # `lr_schedule` and its like come last: where both are given, the schedule is what is meant.
        for name in sorted(values, key=lambda name: str(name).endswith("_schedule")):
            value, target = values[name], compatibility.ALIASES.get(name, name)
            if cls._asks_for_nothing(name, value, values):
                continue
            if target in cls.settings():
                is_schedule = str(name).endswith("_schedule")
                if is_schedule and value is None:
                    continue
                if target in canonical and canonical[target] != value and not is_schedule:
                    raise ConfigError(f"{target!r} is given twice with different values")
                canonical[target] = value
            elif name in compatibility.CONSTANTS:
                cls._check_constant(name, value)
            elif name in compatibility.PLANNED:
                feature = compatibility.PLANNED[name].feature
                raise ConfigError(f"{name} = {value!r} is not supported yet ({feature})")
            elif name in compatibility.REFUSED:
                raise ConfigError(f"{name} is not supported: {compatibility.REFUSED[name].why}")
            elif having := who_has(target):
                what = f"{name} = {value!r} is no setting of {cls._algorithm()}"
                raise ConfigError(f"{what}; it belongs to {having}")
            else:
                raise cls.unknown(str(name))
        return canonical

    @classmethod
    def _asks_for_nothing(cls, name: str, value: Any, values: Mapping[str, Any]) -> bool:
        """Tell whether a value is the reference's default of what does nothing here; see there."""
        target = compatibility.ALIASES.get(name, name)
        if reference_defaults.says_nothing(name, value):
            return True
        if target not in cls.settings():
            return reference_defaults.is_default(name, value)
        if reference_defaults.yields(name, value, values):
            return True
        return target in cls.without and reference_defaults.is_default(target, value)

    @classmethod
    def _check_constant(cls, name: str, value: Any) -> None:
        constant = compatibility.CONSTANTS[name]
        if value is None or value == constant.value:
            return
        if isinstance(constant.value, dict) and value == {}:
            return
        raise ConfigError(
            f"{name} = {value!r} is not supported{' yet' if constant.later else ''}; it is always "
            f"{constant.value!r} here: {constant.why}"
        )

    @classmethod
    def known_names(cls) -> Iterable[str]:
        having = cls.settings().keys() - cls.without
        older = (old for old, new in compatibility.ALIASES.items() if new in having)
        return [*filter(having.__contains__, cls.settings()), *older]

    @classmethod
    def unknown_names(cls, names: Iterable[str]) -> set[str]:
        """Return those that are no setting of any algorithm, nor any name of the reference's."""
        tables: tuple[Container[str], ...] = (
            cls.settings(),
            cls.composites,
            compatibility.ALIASES,
            compatibility.COMPOSITES,
            compatibility.CONSTANTS,
            compatibility.PLANNED,
            compatibility.REFUSED,
        )
        unknown = {name for name in names if not any(name in table for table in tables)}
        return {name for name in unknown if not who_has(name)}

    @classmethod
    def _called_now(cls, name: str) -> str:
        return compatibility.ALIASES.get(name, name)

    @classmethod
    def hint(cls, name: str) -> str:
        found = setting_hint(cls, name)
        if found is not None:
            return f"; {found.words}"
        return super().hint(name) or how_to_declare(cls, name)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Older names can be read, too. Called only where there is no such attribute."""
            if name in compatibility.ALIASES:
                return getattr(self, compatibility.ALIASES[name])
            if name in SETTINGS:
                raise AttributeError(
                    f"{type(self).__name__}.{name} does not exist{self.hint(name)}"
                )
            raise compatibility.missing_attribute(type(self), name)
