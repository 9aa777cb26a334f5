"""Values of each module, as checkpoints hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def to_store(values: dict[str, T]) -> T | dict[str, T]:
    """Return the value of the only module itself, of several modules all values by id.

    A checkpoint of one module is so the same whether an algorithm can train several or not.
    """
    [*all_values] = values.values()
    return all_values[0] if len(all_values) == 1 else dict(values)


def from_store(stored: Any, module_ids: Iterable[str]) -> dict[str, Any]:
    """Return what `to_store` was given, by the ids of the modules."""
    ids = list(module_ids)
    return {ids[0]: stored} if len(ids) == 1 else {m: stored[m] for m in ids}
