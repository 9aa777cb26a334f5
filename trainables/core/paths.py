"""Paths as their user meant them."""

from __future__ import annotations

import os


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path of this machine, relative to where the program was started.

    Tune has each trial work in a folder of its own, and notes where its process was before.
    """
    start = os.environ.get("TUNE_ORIG_WORKING_DIR", os.getcwd())
    return os.path.normpath(os.path.join(start, os.path.expanduser(path)))
