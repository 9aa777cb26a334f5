"""The page `promises.md`: what the reference's documents promise, and what becomes of it here.

The promises are in `promises.yaml`. Run `python -m trainables.promise_table --write` after a change
of it; without `--write` it prints the page's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trainables.core.generated_part import GeneratedPart, row, run_command

STATES = ("works", "works differently", "refused", "planned")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Promise:
    """What the documents say that users may do.

    Attributes:
        section: The section of the page.
        promise: The promise in a few words.
        state: One of `STATES`.
        reason: Why it is not as promised, and what to write instead.
        test: Tests that hold it, `folder/file.py::function` below `tests/`.
        names: What must be there for it: methods with their arguments, settings, modules.
        raises: What must raise an error that says why.
    """

    section: str
    promise: str
    state: str
    reason: str = ""
    test: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    raises: tuple[Mapping[str, Any], ...] = ()


@cache
def promises() -> tuple[Promise, ...]:
    """Return all of them, in the order of the page.

    Raises:
        TypeError: for a key that a promise has not.
    """
    sections = yaml.safe_load((_FOLDER / "promises.yaml").read_text(encoding="utf-8"))
    return tuple(
        Promise(section, **{key: _given(value) for key, value in entry.items()})
        for section, entries in sections.items()
        for entry in entries
    )


def promise_tables() -> str:
    """Return how many promises are in which state, and a table for each section."""
    sections = dict.fromkeys(promise.section for promise in promises())
    return "\n\n".join([_counts(), *(_section(section) for section in sections)])


PART = GeneratedPart(
    _FOLDER / "promises.md", "promises", "trainables.promise_table", promise_tables, 250
)


def _given(value: Any) -> Any:
    """Return a promise's lists are tuples: a promise does not change."""
    return tuple(value) if isinstance(value, list) else value


def _counts() -> str:
    counts = Counter(promise.state for promise in promises())
    cells = [row(state, str(counts[state])) for state in STATES]
    return "\n".join([row("State", "Promises"), "|---|--:|", *cells])


def _section(section: str) -> str:
    rows = [_row(promise) for promise in promises() if promise.section == section]
    header = row("Promise", "State", "What differs, and what to write", "Held by")
    return "\n".join([f"## {section}", "", header, "|---|---|---|---|", *rows])


def _row(promise: Promise) -> str:
    tests = ", ".join(f"`{test}`" for test in promise.test)
    return row(promise.promise, promise.state, promise.reason, tests)


if __name__ == "__main__":
    run_command([PART])
