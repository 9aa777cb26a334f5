"""Nested dicts, one laid over another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deep_merge(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return one nested config with another's settings put in."""
    result = dict(base)
    for key, value in other.items():
        mine = result.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        result[key] = deep_merge(mine, value) if both else value  # type: ignore[arg-type]
    return result
