"""The spec that a sweep keeps in its folder, as far as the analysis looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_MAPPINGS = ("config", "search_space", "search", "scheduler", "objective", "stop", "seeds", "final")
_TEXTS = ("metric", "mode", "algorithm")


def read_spec_file(folder: Path) -> dict[str, Any]:
    """Return the content of the folder's `spec.yaml`; empty where there is none.

    A file that was changed by hand may hold anything: sections that are none are left out.
    """
    try:
        document = yaml.safe_load((folder / "spec.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, AttributeError, RecursionError, yaml.YAMLError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {key: value for key, value in document.items() if _is_sound(key, value)}


def _is_sound(key: str, value: Any) -> bool:
    """Tell whether a key holds what its readers take for granted."""
    if key not in _MAPPINGS or value is None:
        return True
    if not isinstance(value, dict) or not all(isinstance(value.get(k, ""), str) for k in _TEXTS):
        return False
    if key == "search_space":
        return all(isinstance(domain, dict) for domain in value.values())
    return key != "stop" or all(isinstance(limit, int | float) for limit in value.values())
