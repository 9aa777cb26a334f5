"""Sweeps without what takes most of a short one's time and is tested elsewhere.

They leave out pictures and report, and MLflow's database is a copy of one that is made once: MLflow
makes its tables in some seventy steps, which take most of a second.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

# Also for programs that tests start.
_UNDRAWN = "TESTS_UNDRAWN"
_DATABASE = "TESTS_DATABASE"
_DRAW = ("_draw_curves", "_draw_effects", "_draw_lineage", "_draw_best", "write_page")
_originals: dict[str, Any] = {}


def make_cheap(patch: pytest.MonkeyPatch, database: Path) -> None:
    """Make the sweeps of this process cheap, and those of the programs that it starts.

    Args:
        patch: Takes it back.
        database: The file that MLflow's databases are copied from; made with the first of them.
    """
    patch.setenv(_UNDRAWN, "1")
    patch.setenv(_DATABASE, str(database))
    _replace(patch.setattr)


def as_the_parent_does() -> None:
    """In a program that a test has started: make its sweeps cheap if those of the test are."""
    if os.environ.get(_DATABASE):
        _replace(setattr)


@contextmanager
def drawn() -> Iterator[None]:
    """Sweeps that run within draw, as they do for users."""
    os.environ[_UNDRAWN] = ""
    try:
        yield
    finally:
        os.environ[_UNDRAWN] = "1"


def _replace(replace: Callable[[Any, str, Any], None]) -> None:
    for module, names, replaced in (
        ("experiments.running.results", _DRAW, _unless_drawn),
        ("experiments.tracking.store", ("_make_database",), _copied),
    ):
        if (owner := sys.modules.get(module)) is not None:
            for name in names:
                original = _originals.setdefault(name, getattr(owner, name))
                replace(owner, name, replaced(original))


def _unless_drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn_or_not(*args: Any) -> Any:
        return None if os.environ.get(_UNDRAWN) else draw(*args)

    return drawn_or_not


def _copied(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def copied(path: Path) -> None:
        database = Path(os.environ[_DATABASE])
        if not database.exists():
            make(database)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(database, path)

    return copied
