"""`tunescape watch`: a page with live curves of a sweep."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.spec.metrics import LEGACY
from experiments.spec.paths import shown_path
from experiments.terminal import say


def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep: runs/<name>.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")
    ] = 7007,
    metric: Annotated[str | None, typer.Option(help="By default the sweep's objectives.")] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
) -> None:
    """Show a sweep in the browser while it runs: live curves, trials and settings."""
    shell.begin(f"reading {folder}")
    from experiments.watch.local_server import HOST
    from experiments.watch.server import watch_server
    from experiments.watch.watched_sweep import WatchedSweep

    sweep = WatchedSweep(folder, LEGACY.get(metric, metric) if metric else None, mode)
    sweep.look()
    sweep.require_metric()
    server = watch_server(sweep, port)
    address = f"http://{HOST}:{server.server_port}"
    say(shell.output(), f"Watching {shown_path(sweep.folder)}: {address} (Ctrl-C stops it)")
    with closing(server), suppress(KeyboardInterrupt):
        server.serve_forever()
