"""From the arguments of a command to the specs that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from experiments.commands import shell

if TYPE_CHECKING:
    from experiments.spec.schema import SweepSpec


def read_specs(
    spec: str,
    assignments: Iterable[str] | None,
    options: Mapping[str, object],
    experiment: str | None,
    *,
    begins: bool,
    overwrite: bool,
) -> list[SweepSpec]:
    """Return the specs of a file, with `--set` and the options that stand for keys of it.

    Args:
        spec: The file, or the name of a spec.
        assignments: What `--set` gives.
        options: Values of other options by their keys in a spec; None where one was not given.
        experiment: Which experiment of a file that holds several.
        begins: Whether the sweep is to begin: then its folder is looked at before all else.
        overwrite: Whether a sweep of this name may be deleted.
    """
    shell.begin(f"reading {spec}")
    from experiments.sweep.load import load_specs  # it takes a moment, which is shown by now
    from experiments.sweep.used_folder import check_document_folder

    overrides = list(assignments or [])
    # As JSON, and so as YAML: text stays text, whatever it looks like.
    overrides += [
        f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None
    ]
    first = partial(check_document_folder, overwrite=overwrite) if begins else None
    return load_specs(spec, overrides, experiment=experiment, first=first)
