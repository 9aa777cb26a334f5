"""`tunescape run`: run a sweep."""

from __future__ import annotations

from experiments.commands.options import (
    AddressOption,
    DryRunOption,
    ExperimentOption,
    NameOption,
    OverwriteOption,
    SamplesOption,
    SetOption,
    SpecArgument,
    StorageOption,
)
from experiments.commands.reading import read_specs


def run(
    spec: SpecArgument,
    set_: SetOption = None,
    num_samples: SamplesOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    name: NameOption = None,
    experiment: ExperimentOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run a sweep."""
    options = {
        "num_samples": num_samples,
        "storage": storage,
        "resources.address": address,
        "name": name,
    }
    specs = read_specs(spec, set_, options, experiment, begins=not dry_run, overwrite=overwrite)
    from experiments.commands.sweeps import (
        run_specs,  # with Ray: mistakes in a spec are told before
    )

    run_specs(specs, dry_run=dry_run, overwrite=overwrite)
