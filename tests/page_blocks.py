"""The code in the project's pages, for tests that run it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def text_of(page: str) -> str:
    """A page's text, by its path below the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The page's code in a language, in its order and without the page's indentation."""
    return [
        textwrap.dedent(code)
        for _, found, code in _BLOCK.findall(text_of(page))
        if found == language
    ]


def block_with(page: str, words: str) -> str:
    """The page's one block of Python that has these words."""
    [found] = [code for code in blocks(page, "python") if words in code]
    return found


def module_of(code: str) -> str | None:
    """The name of the module that a block is, by its first line; None if it is a script."""
    first = re.match(r"# (\w+)\.py\n", code)
    return first and first[1]


def write_modules(page: str, folder: Path) -> list[str]:
    """Write the page's modules into a folder, and tell their names."""
    modules = {name: code for code in blocks(page, "python") if (name := module_of(code))}
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return list(modules)
