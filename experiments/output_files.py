"""Whether a file can be written, seen before the work that it is for; and how it is replaced."""

from __future__ import annotations

import os
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


def unfinished(path: Path) -> Path:
    """Return the file that `replace_text` leaves if it is cut off."""
    return path.with_name(f".{path.name}.new")


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, in place of the one that there is."""
    new = unfinished(path)
    with new.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(new, path)
