"""From the arguments of a command to the specs that it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from experiments.commands import shell

if TYPE_CHECKING:
    from experiments.spec.schema import SweepSpec


def read_specs(
    spec: str,
    assignments: Iterable[str] | None,
    options: Mapping[str, object],
    experiment: str | None,
) -> list[SweepSpec]:
    """Return the specs of a file, with `--set` and the options that stand for keys of it.

    Args:
        spec: The file, or the name of a spec.
        assignments: What `--set` gives.
        options: Values of other options by their keys in a spec; None where one was not given.
        experiment: Which experiment of a file that holds several.
    """
    shell.begin(f"reading {spec}")
    from experiments.sweep.load import load_specs  # it takes a moment, which is shown by now

    overrides = list(assignments or [])
    # As JSON, and so as YAML: text stays text, whatever it looks like.
    overrides += [
        f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None
    ]
    return load_specs(spec, overrides, experiment=experiment)
