"""Whether a file can be written, seen before the work whose result it is to hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from analysis.home import expanded
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
    path = expanded(path).absolute()
    if path.is_dir():
        raise ExperimentError(f"{option} {path}: that is a folder; name a file")
    problem = why_not_writable(path)
    if problem is not None:
        raise ExperimentError(f"{option} {path}: {problem}")


def why_not_writable(path: Path) -> str | None:
    """Return why a file or folder cannot be made in the nearest folder above it; None if it can."""
    try:
        folder = next(above for above in path.parents if above.exists())
    except OSError as error:  # a name that is too long
        return str(error.strerror)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tunescape-"):
            return None
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"
