"""The form of settings that give connectors: seen before anything is imported."""

from __future__ import annotations

from typing import Any

from trainables.core.config.entries import entries
from trainables.core.errors import ConfigError

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
