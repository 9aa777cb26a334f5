"""`tunescape list`: what there is."""

from __future__ import annotations

import typer

from experiments.commands import shell
from experiments.commands.show.listing import show_list

app = typer.Typer(add_completion=False)


@app.command("list")
def list_() -> None:
    """List the algorithms, search spaces and specs that there are."""
    show_list(shell.output())
