"""`tunescape train`: train one algorithm, or what a file says."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.options import (
    AddressOption,
    CheckpointOption,
    DryRunOption,
    ExperimentOption,
    FrameworkOption,
    NameOption,
    OverwriteOption,
    SamplesOption,
    SetOption,
    SpecArgument,
    StopOption,
    StorageOption,
)
from experiments.commands.reading import before_checks, read_specs
from experiments.errors import SpecError

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def train(
    context: typer.Context,
    algo: Annotated[
        str | None, typer.Option("--algo", "--run", help="Algorithm, e.g. PPO.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment, e.g. CartPole-v1.")] = None,
    stop: StopOption = "{}",
    config: Annotated[str, typer.Option(help="Settings: '{\"lr\": 3e-4}'.")] = "{}",
    framework: FrameworkOption = None,
    name: NameOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    checkpoint_freq: CheckpointOption = None,
    overwrite: OverwriteOption = False,
    set_: SetOption = None,
) -> None:
    """Train one algorithm on one environment; `train file` trains from a file."""
    if context.invoked_subcommand is not None:
        given = [key for key, value in context.params.items() if value and value != "{}"]
        if given:
            option = given[0].strip("_").replace("_", "-")
            raise SpecError(f"write --{option} after `train {context.invoked_subcommand} SPEC`")
        return
    if algo is None:
        raise SpecError("--algo is missing; to train what a file says: train file SPEC")
    shell.begin(f"checking {algo}")
    from experiments.sweep.single import single_trial_spec

    spec = single_trial_spec(
        algo,
        env,
        stop=stop,
        config=config,
        framework=framework,
        name=name,
        storage=storage,
        address=address,
        checkpoint_freq=checkpoint_freq,
        overrides=set_ or [],
        first=before_checks(overwrite),
    )
    from experiments.commands.sweeps import run_specs  # with Ray: mistakes are told before

    run_specs([spec], overwrite=overwrite)


@app.command("file")
def train_file(
    spec: SpecArgument,
    stop: StopOption = "{}",
    framework: FrameworkOption = None,
    set_: SetOption = None,
    num_samples: SamplesOption = None,
    checkpoint_freq: CheckpointOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    name: NameOption = None,
    experiment: ExperimentOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Train from a YAML file, also of RLlib, or from the `config` of a Python file."""
    from experiments.sweep.single import mapping, require_end

    options = {
        "stop": mapping(stop, "--stop") or None,
        "config.framework": framework,
        "num_samples": num_samples,
        "checkpoint.frequency": checkpoint_freq,
        "storage": storage,
        "resources.address": address,
        "name": name,
    }
    specs = read_specs(spec, set_, options, experiment, begins=not dry_run, overwrite=overwrite)
    for read in specs:
        require_end(read)
    from experiments.commands.sweeps import run_specs

    run_specs(specs, dry_run=dry_run, overwrite=overwrite)
