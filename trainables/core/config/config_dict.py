"""`SettingsDict`: settings that are read and set like a dict, copied, and frozen."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

from trainables.core.config.settings import Settings
from trainables.core.errors import ConfigError

# What is no setting, and not copied with them.
_OWN = ("_is_frozen", "_is_given_away", "_resolved")


class SettingsDict(Settings):
    """Part of `AlgorithmConfig`: what a dict of settings can do, and read-only configs."""

    @classmethod
    def overrides(cls, **values: Any) -> dict[str, Any]:
        """Some settings, checked, as a dict, e.g. for `evaluation_config`."""
        return cls.check(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A config of this class with the given settings; the others keep their defaults."""
        return cls().update_from_dict(values)

    def update_from_dict(self, values: Mapping[str, Any]) -> Self:
        """Set each given setting (older names are mapped) and return this config."""
        for name, value in type(self).check(values).items():
            self._store(name, value)
        return self

    def _store(self, name: str, value: Any) -> None:
        """Set a setting to a value that is checked already.

        Raises:
            ConfigError: if this config is frozen.
        """
        self._refuse_if_frozen(name)
        object.__setattr__(self, name, value)

    def _refuse_if_frozen(self, name: str) -> None:
        """Refuse to set a setting of a read-only config.

        Raises:
            ConfigError: naming the setting.
        """
        if self.is_frozen:
            raise ConfigError(f"{name}: this config is frozen; change a copy(copy_frozen=False)")

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """A deep copy, frozen or not as asked; None keeps this one's state."""
        copied = object.__new__(type(self))
        self._give_extras(copied)
        for name, value in self.to_dict().items():  # checked when it was set
            object.__setattr__(copied, name, value)
        copied._is_frozen = self.is_frozen if copy_frozen is None else copy_frozen
        return copied

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """A config like this one, of the same class and algorithm, with these settings alone."""
        made = type(self)().update_from_dict(values)
        self._give_extras(made)
        return made

    def _give_extras(self, other: Self) -> None:
        """Give another config what a subclass keeps besides settings."""
        for name, value in vars(self).items():
            if name not in (*type(self).settings(), *_OWN):
                object.__setattr__(other, name, copy.copy(value))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process is made of; it resolves for itself."""
        return {name: value for name, value in vars(self).items() if name != "_resolved"}

    def freeze(self) -> None:
        """Make this config read-only."""
        self.__dict__.pop("_resolved", None)
        self._is_frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether this config is read-only."""
        return bool(self.__dict__.get("_is_frozen", False))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting, like a dict's `get`."""
        return self[key] if key in self else default  # noqa: SIM401 - that would call itself

    def pop(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting; it is a config, so nothing is removed."""
        return self.get(key, default)

    def keys(self) -> Iterator[str]:
        """Names of all settings."""
        return iter(type(self).settings())

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return len(type(self).settings())

    def values(self) -> Iterator[Any]:
        """Values of all settings."""
        return (getattr(self, name) for name in self.keys())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and values of all settings."""
        return ((name, getattr(self, name)) for name in self.keys())

    def __contains__(self, key: object) -> bool:
        return self._called_now(str(key)) in type(self).settings()

    def __getitem__(self, key: str) -> Any:
        target = self._called_now(key)
        if target not in type(self).settings():
            raise type(self).unknown(key)
        return getattr(self, target)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)
