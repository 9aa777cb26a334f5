"""`tunescape dashboard`: a sweep in Optuna's dashboard."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.spec.paths import shown_path
from experiments.terminal import say


def dashboard(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep: runs/<name>.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")
    ] = 8080,
) -> None:
    """Show a sweep in Optuna's dashboard, while it runs and afterwards."""
    shell.begin(f"reading {folder}")
    from experiments.watch.local_server import HOST
    from experiments.watch.optuna_server import STUDY_PAGE, study_server

    server = study_server(folder, port)
    address = f"http://{HOST}:{server.server_port}{STUDY_PAGE}"
    say(shell.output(), f"Optuna's dashboard of {shown_path(folder)}: {address} (Ctrl-C stops it)")
    with closing(server), suppress(KeyboardInterrupt):
        server.serve_forever()
