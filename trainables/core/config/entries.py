"""The form of settings that give code, one thing or several: seen before it is imported."""

from __future__ import annotations

from typing import Any

from trainables.core.errors import ConfigError


def entries(given: Any) -> list[Any]:
    """Return what a setting gives, in order: nothing, one thing or several."""
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


ALLOWED = (
    "a function, a class or 'module:name' of one; {'type': one of these, **its arguments}; or a "
    "list of them"
)


def check_connectors(given: Any, setting: str) -> None:
    """Check the form of a setting that gives connectors. Nothing is imported.

    Raises:
        ConfigError: naming the entry that is none.
    """
    for entry in entries(given):
        kind = entry.get("type") if isinstance(entry, dict) else entry
        if not (callable(kind) or (isinstance(kind, str) and ":" in kind)):
            raise ConfigError(f"{setting} = {entry!r} is not allowed; allowed: {ALLOWED}")
