"""The code in the project's pages, for tests that run it.

A block that no test can run has a comment on the line before it, which readers do not see:
`<!-- not run: the reason -->`. Tests get the blocks without such a comment from the functions here
and from `page_commands.follow`, and `unit/test_page_blocks.py` reads from these calls which blocks
are run: so a call names its page by a constant.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("trainables", "search_spaces", "experiments", "analysis", "docs")
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (
        *ROOT.glob("*.md"),
        *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
        ROOT / "tests" / "README.md",
    )
)
TEXT = "text"  # output, a tree or a message: nobody executes it
_BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# ([\w.]+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        page: The page's path below the root.
        line: That of its fence, from 1.
        language: As the fence names it.
        code: Without the page's indentation.
        reason: Why no test runs it; None if one has to.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def file(self) -> str | None:
        """The file as which a reader saves it, by its first line."""
        first = _FILE.match(self.code)
        return first and first[1]


def text_of(page: str) -> str:
    """A page's text, by its path below the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def every_block(page: str, text: str | None = None) -> list[Block]:
    """The page's blocks in their order, or those of another text of it."""
    text = text_of(page) if text is None else text
    return [
        Block(
            page,
            1 + text.count("\n", 0, found.start("indent")),
            found["language"],
            textwrap.dedent(found["code"]),
            found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]


def code_in(page: str, start: str = "", end: str = "", text: str | None = None) -> list[Block]:
    """The page's code that tests run.

    Args:
        page: Its path below the root.
        start: Words with which the part begins.
        end: Words with which it ends; the page's end by default.
        text: Another text of the page.
    """
    text = text_of(page) if text is None else text
    first, last = text.index(start), text.index(end) if end else len(text)
    lines = range(text.count("\n", 0, first), 1 + text.count("\n", 0, last))
    return [
        block
        for block in every_block(page, text)
        if block.line in lines and block.reason is None and block.language != TEXT
    ]


def blocks(page: str, language: str) -> list[str]:
    """The page's code in a language."""
    return [
        block.code
        for block in every_block(page)
        if block.language == language and block.reason is None
    ]


def block_with(page: str, words: str) -> str:
    """The page's one block of Python that has these words."""
    [found] = [code for code in blocks(page, "python") if words in code]
    return found


def write_files(page: str, folder: Path, smaller: Mapping[str, str] | None = None) -> list[str]:
    """Write the blocks that begin with a file's name.

    Args:
        page: Its path below the root.
        folder: Where the files will be.
        smaller: See `smaller_text`.

    Returns:
        The files' names without their suffix.
    """
    files = {b.file: b.code for b in code_in(page, text=smaller_text(page, smaller)) if b.file}
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")
    return [Path(name).stem for name in files]


def smaller_text(page: str, smaller: Mapping[str, str] | None) -> str:
    """A page's text with other words for some, each of which it must have."""
    text = text_of(page)
    for words, instead in (smaller or {}).items():
        assert words in text, words
        text = text.replace(words, instead)
    return text
