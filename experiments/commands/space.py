"""`tunescape space`: show a search space."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.show.space import show_space
from search_spaces.loader import load_preset

app = typer.Typer(add_completion=False)


@app.command()
def space(
    name: Annotated[
        str, typer.Argument(help="An algorithm's space (PPO), its preset (PPO/zoo), or a file.")
    ],
    form: Annotated[
        str, typer.Option("--as", help="table, yaml (for a spec), or python (for plain Tune).")
    ] = "table",
) -> None:
    """Show a search space."""
    show_space(load_preset(name), form, shell.output())
