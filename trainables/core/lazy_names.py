"""A package's names, imported when they are first used.

They stand in its `__init__.py` once, as imports under `if TYPE_CHECKING:`, where type checkers and
editors read them too.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
    homes = names_listed_in(Path(package["__file__"]))

    def get(name: str) -> Any:
        if name not in homes:
            problem = f"module {package['__name__']!r} has no attribute {name!r}"
            raise AttributeError(problem + why_not(name))
        value = package[name] = getattr(importlib.import_module(homes[name]), name)
        return value

    listed = sorted(homes)
    package.update(__getattr__=get, __dir__=lambda: listed, __all__=listed)
