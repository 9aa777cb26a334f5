"""A package's names, imported when they are first used.

They stand in its `__init__.py` once, as imports under `if TYPE_CHECKING:`, where type checkers and
editors read them too.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainables.core.features import feature


def names_listed_in(file: Path) -> dict[str, str]:
    """Read which module each name comes from that a file imports for type checkers."""
    homes: dict[str, str] = {}
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    homes |= dict.fromkeys([name.name for name in node.names], node.module)
    return homes


def offer_names(package: dict[str, Any], why_not: Callable[[str], str] = lambda name: "") -> None:
    """Give a package the names that its file imports for type checkers.

    Args:
        package: The package's `globals()`. It gets `__getattr__`, `__dir__` and `__all__`.
        why_not: Tells why it has not a name, to end the error with.
    """
    file = Path(package["__file__"])
    folder, homes = file.parent, names_listed_in(file)

    def get(name: str) -> Any:
        if name not in homes:
            problem = f"module {package['__name__']!r} has no attribute {name!r}"
            is_module = (folder / name).exists() or (folder / f"{name}.py").exists()
            raise AttributeError(problem + ("" if is_module else why_not(name)))
        value = package[name] = getattr(importlib.import_module(homes[name]), name)
        return value

    listed = sorted(homes)
    package.update(__getattr__=get, __dir__=lambda: listed, __all__=listed)


_PACKAGES = ("trainables", "tunescape")


class Finder:
    """Comes last of Python's finders: for modules and names that none of them has found."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise for what is known not to be here.

        `from trainables import TD3Config` ends here, too: Python looks for a module of that name.

        Raises:
            ModuleNotFoundError: saying what becomes of it.
        """
        package, _, name = fullname.partition(".")
        if package in _PACKAGES and name.isidentifier():
            words = feature("reference").whats_become_of(name)
            if words is not None:
                # Without its `name`: `from … import …` takes that for a module that may be missing.
                raise ModuleNotFoundError(f"{fullname}: {words}")


def refuse_imports() -> None:
    """Make imports of what is not here say so, once in a process."""
    if not any(getattr(finder, "__module__", "") == __name__ for finder in sys.meta_path):
        sys.meta_path.append(Finder)
