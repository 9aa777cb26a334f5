"""Imports of what is planned or will not come: they say so by name."""

from __future__ import annotations

import sys
from typing import Any

_PACKAGES = ("trainables", "tunescape")


class Finder:
    """Comes last of Python's finders: for modules and names that none of them has found."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise for what is known not to be here.

        `from trainables import BCConfig` ends here, too: Python looks for a module of that name.

        Raises:
            ModuleNotFoundError: saying what becomes of it.
        """
        package, _, name = fullname.partition(".")
        if package in _PACKAGES and name.isidentifier():
            from trainables.core.config.reference.planned import whats_become_of

            words = whats_become_of(name)
            if words is not None:
                # Without its `name`: `from … import …` takes that for a module that may be missing.
                raise ModuleNotFoundError(f"{fullname}: {words}")


def install() -> None:
    """Make imports say so, once in a process."""
    if not any(getattr(finder, "__module__", "") == __name__ for finder in sys.meta_path):
        sys.meta_path.append(Finder)
