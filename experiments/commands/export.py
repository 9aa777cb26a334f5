"""`tunescape export`: write the best policy of a sweep, or another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.evaluation.export_policy import export_policy, show_export

app = typer.Typer(add_completion=False)


@app.command()
def export(
    folder: Annotated[
        Path,
        typer.Argument(help="A sweep (its best/, as evaluate), a trial, a checkpoint or a policy."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder; by default best/ or best-FORMAT in it."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="policy (a folder for Policy.load), torch or onnx (a graph from observations to "
            "actions), or mlflow (a model to serve)."
        ),
    ] = "policy",
    metric: Annotated[
        str | None, typer.Option(help="Choose by this among the sweep's checkpoints; needs -o.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="max or min; needs -o.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Of the sweep, instead: TRIAL/checkpoint_000001; needs -o."),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Version of ONNX's operators.")] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Of torch and onnx: code that may be imported, as module:name."),
    ] = None,
) -> None:
    """Export the best policy of a sweep, or another one."""
    target = export_policy(
        folder,
        output,
        format=format,
        metric=metric,
        mode=mode,
        checkpoint=checkpoint,
        opset=opset,
        trust=trust or (),
    )
    show_export(target, shell.output())
