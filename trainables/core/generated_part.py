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
        make: Makes the Markdown, of tables.
        least_rows: How many rows they have together, at least.
    """

    page: Path
    name: str
    command: str
    make: Callable[[], str]
    least_rows: int

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

    def text(self) -> str:
        """Return the part as the code has it now.

        Raises:
            ValueError: if a table has no row, or all have too few: then what makes it looks for
                something where it is no more.
        """
        made = self.make()
        rows = rows_of_tables(made)
        if 0 in rows or sum(rows) < self.least_rows:
            raise ValueError(
                f"{self.page.name}: {self.name}: tables of {rows} rows; at least one each, and "
                f"{self.least_rows} together, are expected of {self.command}"
            )
        return made

    def write(self) -> None:
        """Make the part anew in its page."""
        before, _, after = self._split()
        text = f"{before}{self.begin}\n\n{self.text()}\n\n{self.end}{after}"
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


def rows_of_tables(text: str) -> list[int]:
    """Return how many rows each table of a Markdown text has, below its header."""
    counts: list[int] = []
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        lines = table.splitlines()
        rules = [n for n, line in enumerate(lines) if re.fullmatch(r"[|\s:-]+", line)]
        counts.append(len(lines) - 1 - rules[0] if rules else len(lines))
    return counts


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
            print(part.text())
