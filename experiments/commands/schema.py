"""`tunescape schema`: the JSON schema of specs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.home import expanded
from experiments.spec.json_schema import schema_text


def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; default: stdout.")
    ] = None,
) -> None:
    """Print the JSON schema of specs, for editors to complete and check them."""
    if output is None:
        typer.echo(schema_text(), nl=False)
    else:
        expanded(output).write_text(schema_text(), encoding="utf-8")
