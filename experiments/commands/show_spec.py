"""`tunescape show`: a spec with all its defaults, or as Python."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.commands.options import ExperimentOption, SetOption, SpecArgument
from experiments.errors import SpecError

app = typer.Typer(add_completion=False)


@app.command()
def show(
    spec: SpecArgument,
    as_: Annotated[
        str, typer.Option("--as", help="yaml: the complete checked spec; python: a script.")
    ] = "yaml",
    set_: SetOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Show a spec with all that it extends and every default, or as a Python script."""
    from experiments.sweep.load import dump_spec, load_specs

    if as_ not in ("yaml", "python"):
        raise SpecError(f"--as {as_}: allowed: yaml, python")
    sweeps = load_specs(spec, set_ or [], experiment=experiment)
    if as_ == "yaml":
        typer.echo("---\n".join(dump_spec(sweep) for sweep in sweeps), nl=False)
        return
    if len(sweeps) > 1:
        names = ", ".join(sweep.name for sweep in sweeps)
        raise SpecError(
            f"{spec} is a matrix of {len(sweeps)} sweeps ({names}): choose one, e.g. with "
            "--set matrix.env=[CartPole-v1]"
        )
    from experiments.commands.show.python import python_source

    typer.echo(python_source(sweeps[0]), nl=False)
