"""The kind `random`: settings are drawn, those with `grid` crossed with each draw."""

from __future__ import annotations

from experiments.search.kind import SearchKind
from experiments.spec.search_schema import RandomSearch


class RandomKind(SearchKind[RandomSearch]):
    """Random search."""
