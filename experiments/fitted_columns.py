"""Columns of a table that fit a terminal: headings fold, then columns go, and no value is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len

GAP = 2  # between two columns of a table without lines
_MOST_LINES = 3  # of a heading


@dataclass(frozen=True)
class Column:
    """A column; the one with the highest rank goes first, one without never does.

    Attributes:
        key: The name that it is known by.
        heading: The text over it.
        cells: A text for each row.
        justify: The side on which the cells stand.
        rank: Its rank; the higher, the sooner it goes where there is no room. None: it stays.
        lines: The lines of the heading, if it is folded.
    """

    key: str
    heading: str
    cells: tuple[str, ...]
    justify: Literal["left", "right"] = "left"
    rank: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Characters of its widest line."""
        return max(map(cell_len, (*(self.lines or [self.heading]), *self.cells)))

    def folded(self, most: int = 0) -> Column:
        """Return the same with a heading of several lines, none wider than the cells or `most`."""
        room = max([most, *map(cell_len, self.cells)])
        return replace(self, lines=tuple(fold(self.heading, room)))


def fitting(columns: Sequence[Column], width: int, gap: int = GAP) -> list[Column]:
    """Return the columns that fit side by side, with folded headings if they have to be."""
    columns = list(columns)
    while _total(columns, gap) > width:
        gains = [column.width - column.folded().width for column in columns]
        if max(gains) > 0:
            most = gains.index(max(gains))
            columns[most] = columns[most].folded()
            continue
        dispensable = [column for column in columns if column.rank is not None]
        if not dispensable:
            break
        columns.remove(max(dispensable, key=lambda column: column.rank or 0))
    return columns


def fold(heading: str, width: int) -> list[str]:
    """Return a heading in as many lines as it has at a width, at most three: then they are wider.

    It is broken after spaces, slashes and underscores only, and not before the s of "steps/s".
    """
    parts = re.findall(r".*?(?:[ _]|/(?=..)|$)", heading)
    width = max([width, *(len(part.rstrip(" ")) for part in parts)])
    while True:
        lines = [""]
        for part in parts:
            if lines[-1] and len((lines[-1] + part).rstrip(" ")) > width:
                lines.append("")
            lines[-1] += part
        if len(lines) <= _MOST_LINES:
            return [line.rstrip(" ") for line in lines]
        width += 1


def short_names(keys: Sequence[str]) -> list[str]:
    """Return the last part of each key, or as many parts as tell it from the others."""

    def tail(key: str, parts: int) -> str:
        return "/".join(key.split("/")[-parts:])

    names = []
    for key in keys:
        parts = 1
        while parts < len(key.split("/")) and any(
            other != key and tail(other, parts) == tail(key, parts) for other in keys
        ):
            parts += 1
        names.append(tail(key, parts))
    return names


def _total(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)
