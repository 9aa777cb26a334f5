"""The kinds of searches, by the algorithm that a spec names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from experiments.search.kind import SearchKind

_CLASSES = {
    "grid": "GridKind",
    "random": "RandomKind",
    "tpe": "Tpe",
    "cmaes": "Cmaes",
    "gp": "Gp",
    "sobol": "Sobol",
    "nsga2": "Nsga2",
    "nsga3": "Nsga3",
}
"""The class of each kind; its module has the algorithm's name, and is imported when it is used."""


def search_kind(options: Any) -> SearchKind[Any]:
    """Return the kind of a `search` section, with these options."""
    name = options.algorithm
    kind: type[SearchKind[Any]] = getattr(import_module(f"{__package__}.{name}"), _CLASSES[name])
    return kind(options)
