"""What is done to the settings of RLlib's files: one is moved, or left out with a note."""

from __future__ import annotations

import warnings
from typing import Any

from experiments.errors import SpecWarning
from search_spaces.documents import Document, KeyPath


def put(document: Document, old: KeyPath, value: Any, new: KeyPath) -> None:
    """Set `config.<new>` to what was written at `config.<old>`.

    Raises:
        SpecError: `new` has another value already, or lies in what is no mapping.
    """
    node = document.data["config"]
    for key in new[:-1]:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise document.error(("config", key), f"config: {key} = {node!r} is not a mapping")
    if node.get(new[-1], value) != value:
        raise document.error(
            ("config", *old),
            f"config: {'.'.join(map(str, old))} is an older name of {'.'.join(map(str, new))}, "
            "which has another value",
        )
    node[new[-1]] = value
    document.copy_places(("config", *old), ("config", *new))


def leave_out(document: Document, name: str, why: str, *, within: KeyPath = ()) -> None:
    """Delete `config.<within>.<name>` and say so."""
    parent = document.data["config"]
    for key in within:
        parent = parent[key]
    value = parent.pop(name)
    note(document, ("config", *within, name), f"{name} = {value!r} is left out: {why}")


def note(document: Document, place: KeyPath, text: str) -> None:
    """Tell the user what became of the key at `place`."""
    warnings.warn(f"{document.where(place)}: {text}", SpecWarning, stacklevel=3)
