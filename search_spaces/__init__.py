"""What to search: hyperparameter spaces as data.

`load_space("ppo")` reads a space that ships with the package; `SearchSpace.parse({...})` builds
one from plain data. Nothing here imports ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from search_spaces.documents import SpecError
    from search_spaces.loader import load_preset, load_space, preset_names, space_names
    from search_spaces.space import SearchSpace

_HOME = {
    "SearchSpace": "space",
    "SpecError": "documents",
    "load_preset": "loader",
    "load_space": "loader",
    "preset_names": "loader",
    "space_names": "loader",
}

__all__ = [
    "SearchSpace",
    "SpecError",
    "load_preset",
    "load_space",
    "preset_names",
    "space_names",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
