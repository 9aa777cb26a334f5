"""The spec of a sweep's folder, wherever the folder lies now."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from analysis.home import expanded
from experiments.errors import SweepError
from experiments.spec.paths import SPEC_FILE
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_spec, read_spec


def load_sweep_spec(folder: Path, *, check: bool = False) -> SweepSpec:
    """Return the spec of a sweep's folder, with `storage` and `name` where the folder is now.

    Args:
        folder: The sweep's folder.
        check: Whether its trainable and environment must be there, as for running it.

    Raises:
        SweepError: It is not a sweep's folder, or was renamed to what no sweep can be called.
    """
    folder = expanded(folder).absolute()
    if not folder.is_dir():
        raise SweepError(f"{folder}: no such folder; expected that of a sweep, e.g. runs/<name>")
    if not (folder / SPEC_FILE).is_file():
        raise SweepError(f"{folder} is not a sweep's folder: it has no {SPEC_FILE}")
    spec = (load_spec if check else read_spec)(folder / SPEC_FILE)
    depth = spec.name.count("/") + 1
    spec.storage = str(folder.parents[depth - 1])
    try:
        spec.name = "/".join(folder.parts[-depth:])
    except ValidationError as error:
        raise SweepError(
            f"{folder}: its name is no sweep's, rename it: {error.errors()[0]['msg']}"
        ) from None
    return spec
