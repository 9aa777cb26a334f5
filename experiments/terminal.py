"""Consoles: as wide as the terminal, or wide enough for a log file; lines and tables on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LOG_WIDTH = 160


def make_console(*, stderr: bool = False) -> Console:
    """Return a rich console on stdout or stderr."""
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print text as it is: no line is broken, and brackets, numbers and paths stay plain."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def make_table(title: str, caption: str | None = None) -> Table:
    """Return an empty table with a line below its headings, title and caption at its left."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
