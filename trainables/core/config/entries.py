"""Settings that take one thing or several."""

from __future__ import annotations

from typing import Any


def entries(given: Any) -> list[Any]:
    """Return what a setting gives, in order: nothing, one thing or several."""
    if given is None:
        return []
    return given if isinstance(given, list) else [given]
