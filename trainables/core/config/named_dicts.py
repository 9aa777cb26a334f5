"""Dicts of settings whose keys are names of one's own, as trust sees them: see `core.trust`.

No object is made of these classes. They say which declaration judges a value inside such a dict.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from trainables.core.config.settings import Setting, Settings


class Declared(dict[str, Setting]):
    """Declarations by name, with one that stands for every other name."""

    def __init__(self, known: Mapping[str, Setting], other: Setting):
        super().__init__(known)
        self._other = other

    def __missing__(self, name: str) -> Setting:
        return self._other

    def get(self, name: str, default: Any = None) -> Any:
        """Return the declaration of a name, which every name has."""
        return self[name]


def _any_name(*, harmless: bool | None) -> Setting:
    doc = "what is given by a name of one's own"
    return Setting("", "multi_agent", doc, default=None, annotation=Any, harmless=harmless)


@functools.cache
def by_name(inner: Any) -> type[Settings]:
    """Return what judges a dict that has a dict of `inner` settings for each name of one's own.

    Args:
        inner: The class of settings.
    """

    class ByName(Settings):
        @classmethod
        def settings(cls) -> dict[str, Setting]:  # type: ignore[override]  # not cached
            return Declared({}, _any_name(harmless=None))

        @classmethod
        def settings_inside(cls, name: str) -> type[Settings]:
            return inner

    return ByName


@functools.cache
def with_arguments(known: Any) -> type[Settings]:
    """Return what judges a dict of settings, or of arguments of code.

    A name that is no setting is an argument: whoever trusts the code trusts what it is given.

    Args:
        known: The class of settings.
    """

    class WithArguments(Settings):
        @classmethod
        def settings(cls) -> dict[str, Setting]:  # type: ignore[override]  # not cached
            return Declared(known.settings(), _any_name(harmless=True))

        @classmethod
        def settings_inside(cls, name: str) -> type[Settings] | None:
            inside: Any = known.settings_inside(name)
            return None if inside is None else with_arguments(inside)

    return WithArguments
