"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the spec: config.lr=3e-4."),
]
NameOption = Annotated[str | None, typer.Option(help="Name of the sweep and of its folder.")]
StorageOption = Annotated[str | None, typer.Option(help="Folder for the sweep's folder.")]
AddressOption = Annotated[
    str | None,
    typer.Option(help="Ray cluster to join (ip:port); default: start Ray on this machine."),
]
SpecArgument = Annotated[
    str,
    typer.Argument(
        help="A YAML file or its URL, the name of a spec (see `list`), or your FILE.py."
    ),
]
StopOption = Annotated[
    str, typer.Option(help="Stop criteria: '{\"num_env_steps_sampled_lifetime\": 100000}'.")
]
FrameworkOption = Annotated[str | None, typer.Option(help="Only torch is allowed.")]
CheckpointOption = Annotated[
    int | None, typer.Option(help="Iterations between checkpoints; 0: only at the end.")
]
SamplesOption = Annotated[int | None, typer.Option(help="Number of trials.")]
ExperimentOption = Annotated[
    str | None, typer.Option(help="The experiment to run, if the file has several.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Delete a sweep of this name that has results.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check the spec and show what would run.")
]
