"""The imports of the product, read from its source: who imports whom, and why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("trainables", "search_spaces", "experiments", "analysis", "tunescape")


class Import(NamedTuple):
    """An import: of `package.name` for each name, in a line, maybe for annotations only."""

    line: int
    name: str
    typing: bool


def source_files(root: Path) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """The name of the module at a path, which is relative to the root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, module: str) -> Iterator[Import]:
    """Everything that a file imports: inside functions, below `if TYPE_CHECKING`, by name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node, typing in _nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, typing)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*base, source] if source else base)
            for alias in node.names:
                yield Import(node.lineno, f"{source}.{alias.name}", typing)
        elif isinstance(node, ast.Call) and name_of(node.func) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Import(node.lineno, argument.value, typing)


def _nodes(tree: ast.AST, typing: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it lies below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                yield inner, True
                yield from _nodes(inner, True)
            for other in node.orelse:
                yield other, typing
                yield from _nodes(other, typing)
            continue
        yield node, typing
        yield from _nodes(node, typing)


def name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")
