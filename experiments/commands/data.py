"""`tunescape data`: what is in recorded experience, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.recording.data_summary import summarise
from experiments.commands.recording.data_text import show_summary
from experiments.output_files import check_writable
from experiments.spec.paths import shown_path
from experiments.terminal import say


def data(
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Files, a folder, a glob, a URL, or minari:DATASET, as in the setting input_.",
        ),
    ],
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the data: FILE.png, FILE.pdf or FILE.svg.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="parquet, csv, json or minari, if the file names do not show it."
        ),
    ] = None,
    clip_actions: Annotated[
        bool, typer.Option("--clip-actions", help="Clip actions to their bounds.")
    ] = False,
    input_config: Annotated[
        str | None,
        typer.Option(
            help="The setting input_config, as JSON: what columns are called, "
            '{"obs_columns": ["price"], "action_column": "order"}.'
        ),
    ] = None,
    normalized: Annotated[
        bool, typer.Option("--normalized", help="The files hold bounded actions scaled to [-1, 1].")
    ] = False,
) -> None:
    """Summarise recorded data, and list broken rows; the exit status is 1 if there are any."""
    if plot is not None:
        check_writable(plot, "--plot")
    config = {}
    if input_config is not None:
        from experiments.sweep.single import mapping  # which imports Ray

        config = mapping(input_config, "--input-config")
    if format_ is not None:
        config["format"] = format_
    if clip_actions:
        config["clip_actions"] = True
    shell.begin(f"reading {items[0]}")
    summary = summarise(items, config, normalized=normalized)
    show_summary(summary, shell.output())
    if plot is not None and (summary.num_steps or not summary.broken):
        from experiments.commands.recording.data_picture import plot_data

        drawn = f"Plot: {shown_path(plot_data(summary, plot))}"
        say(shell.errors(), drawn)
    if summary.broken:
        raise typer.Exit(shell.EXIT_FAILED)
