"""From the arguments of a command to the specs that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from experiments.commands import shell
from experiments.workers.warm import start_server

if TYPE_CHECKING:
    from experiments.spec.schema import SweepSpec
    from search_spaces.documents import Document


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
        begins: Whether the sweep is to begin: see `before_checks`.
        overwrite: Whether a sweep of this name may be deleted.
    """
    shell.begin(f"reading {spec}")
    from experiments.sweep.load import load_specs  # it takes a moment, which is shown by now

    overrides = list(assignments or [])
    # As JSON, and so as YAML: text stays text, whatever it looks like.
    overrides += [
        f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None
    ]
    first = before_checks(overwrite) if begins else None
    return load_specs(spec, overrides, experiment=experiment, first=first)


def before_checks(overwrite: bool) -> Callable[[Document], None]:
    """Return what is done with a spec that was read, before anything of it is checked.

    It refuses a folder that is used, and starts the process that workers are forked from: that
    imports PyTorch and more while this process does so for the checks.

    Args:
        overwrite: Whether a sweep of this name may be deleted.
    """
    from experiments.sweep.used_folder import check_document_folder

    def begin(document: Document) -> None:
        check_document_folder(document, overwrite=overwrite)
        resources = document.data.get("resources")
        if not (isinstance(resources, dict) and resources.get("address")):
            start_server()

    return begin
