"""`--set KEY=VALUE`: what the command line changes of a spec, also inside a section in short."""

from __future__ import annotations

from collections.abc import Iterable

from search_spaces.documents import Document, KeyPath
from trainables.core.config.reference.compatibility import ALIASES

# What a section's short form is in its long one: `search: gp` is `search: {algorithm: gp}`.
_IN_FULL = {"search": "algorithm", "scheduler": "algorithm", "search_space": "base"}


def apply_overrides(document: Document, assignments: Iterable[str]) -> None:
    """Apply assignments such as `search.n_startup_trials=3`, in order.

    Raises:
        SpecError: One is no assignment, or its key lies in what is no mapping.
    """
    for assignment in assignments:
        key, dot, _ = assignment.partition("=")[0].strip().partition(".")
        if dot:
            _write_in_full(document, key)
        document.set(assignment)
        _replace_other_names(document, assignment)


def in_full(key: str, value: object) -> object:
    """Return a section of a spec in its long form; what has no short form as it is."""
    if key in _IN_FULL and isinstance(value, str):
        return {_IN_FULL[key]: value}
    is_short_seeds = isinstance(value, (int, list)) and not isinstance(value, bool)
    return {"values": value} if key == "seeds" and is_short_seeds else value


def _replace_other_names(document: Document, assignment: str) -> None:
    """What the file gives for the same setting of the algorithm under its other names is gone."""
    section, _, name = assignment.partition("=")[0].strip().partition(".")
    config = document.data.get(section)
    if section != "config" or not isinstance(config, dict):
        return
    present = ALIASES.get(name, name)
    for other in [key for key in config if key != name and ALIASES.get(key, key) == present]:
        del config[other]
        document.settings.pop((section, other), None)


def _write_in_full(document: Document, key: str) -> None:
    short = document.data.get(key)
    full = in_full(key, short)
    if full is short:
        return
    assert isinstance(full, dict)
    document.data[key] = full
    [inner] = full
    place: KeyPath = (key, inner)
    if (key,) in document.settings:
        document.settings[place] = document.settings[(key,)]
    elif (key,) in document.lines:
        document.lines[place] = document.lines[(key,)]
