"""Whether a file can be written, seen before the work whose result it is to hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from experiments.errors import ExperimentError


def check_writable(path: Path, option: str) -> None:
    """See that a file can be written, though its folders may still have to be made.

    Nothing is left: it is tried in the folder, or in the nearest one above that is there.

    Args:
        path: The file.
        option: What it was named with, for the error.

    Raises:
        ExperimentError: It is a folder, or its folder cannot be written.
    """
    path = path.expanduser().absolute()
    if path.is_dir():
        raise ExperimentError(f"{option} {path}: that is a folder; name a file")
    folder = next(above for above in path.parents if above.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tunescape-"):
            pass
    except OSError as error:
        raise ExperimentError(
            f"{option} {path}: {folder} cannot be written ({error.strerror})"
        ) from None
