"""The imports of the product, read from its source: who imports whom, and why."""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def imports(path: Path, module: str) -> tuple[Import, ...]:
    """Everything that a file imports: inside functions, below `if TYPE_CHECKING`, by name."""
    return tuple(_imports(path, module))


def _imports(path: Path, module: str) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    text = path.read_text(encoding="utf-8")
    by_call = "import_module" in text or "__import__" in text
    for node, typing in _nodes(ast.parse(text), expressions=by_call):
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


def _nodes(tree: ast.AST, *, expressions: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, or every statement, and whether it lies below `if TYPE_CHECKING:`."""
    waiting = [(tree, False)]
    while waiting:
        node, typing = waiting.pop()
        yield node, typing
        checks = isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING"
        bodies = node.body if checks and isinstance(node, ast.If) else []
        for child in ast.iter_child_nodes(node):
            if expressions or not isinstance(child, ast.expr):
                waiting.append((child, typing or child in bodies))


def name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")
