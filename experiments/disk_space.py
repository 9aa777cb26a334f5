"""What is said of a disk that filled up: which one it is, and for what it was needed."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

# Of the system, of SQLite, and of Ray, in the words that they write into tracebacks.
_FULL = re.compile(
    r"No space left on device|Disk quota exceeded|errno 28\b|database or disk is full"
    r"|OutOfDiskError",
    re.IGNORECASE,
)
_PATH = re.compile(r"'(/[^']+)'")


def is_full(cause: str) -> bool:
    """Tell whether an error's text says that a disk is full."""
    return bool(_FULL.search(cause))


def full_disk(causes: Iterable[str], folder: Path) -> str | None:
    """Return what to say if a cause is a full disk: where it is mounted, and what is free.

    Args:
        causes: Texts of errors.
        folder: The sweep's folder.
    """
    full = [cause for cause in causes if is_full(cause)]
    if not full:
        return None
    named = [Path(path) for cause in full for path in _PATH.findall(cause)]
    places = [_existing(path) for path in [*named, folder, Path(tempfile.gettempdir())]]
    place = min(places, key=lambda path: shutil.disk_usage(path).free)
    usage = shutil.disk_usage(place)
    return (
        f"the disk of {place}, mounted at {_mount(place)}, is full: {_megabytes(usage.free)} of "
        f"{_megabytes(usage.total)} are free"
    )


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there."""
    return next(place for place in (path, *path.parents) if place.exists())


def _mount(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.is_mount())


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
