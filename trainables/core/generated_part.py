"""Parts of pages that are made from the code, between two markers.

The module that makes one is a command: it prints the part, or writes it with `--write`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GeneratedPart:
    """A part of a page between two markers.

    Attributes:
        page: A Markdown file with both markers.
        name: The name of the part, in the markers.
        command: The module that makes it.
        make: Makes the Markdown.
    """

    page: Path
    name: str
    command: str
    make: Callable[[], str]

    @property
    def begin(self) -> str:
        """The marker before the part."""
        return f"<!-- {self.name}: begin; made by `python -m {self.command} --write` -->"

    @property
    def end(self) -> str:
        """The marker after it."""
        return f"<!-- {self.name}: end -->"

    def current(self) -> str:
        """Return the part as the page has it."""
        return self._split()[1].strip("\n")

    def write(self) -> None:
        """Make the part anew in its page."""
        before, _, after = self._split()
        text = f"{before}{self.begin}\n\n{self.make()}\n\n{self.end}{after}"
        self.page.write_text(text, encoding="utf-8")

    def _split(self) -> tuple[str, str, str]:
        before, rest = self.page.read_text(encoding="utf-8").split(self.begin)
        part, after = rest.split(self.end)
        return before, part, after


def anchor(heading: str) -> str:
    """Return the name under which links find a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def row(*cells: str) -> str:
    """Return a table's row."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def run_command(parts: Sequence[GeneratedPart]) -> None:
    """Print the parts that a module makes, or write them into their pages."""
    pages = " and ".join(dict.fromkeys(part.page.name for part in parts))
    parser = argparse.ArgumentParser(prog=f"python -m {parts[0].command}")
    parser.add_argument("--write", action="store_true", help=f"write into {pages}")
    write = parser.parse_args().write
    for part in parts:
        if write:
            part.write()
        else:
            print(part.make())
