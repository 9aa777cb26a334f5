"""Paths as their user meant them."""

from __future__ import annotations

import os


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path of this machine, relative to where the program was started.

    Tune has each trial work in a folder of its own, and notes where its process was before.
    """
    path = os.path.expanduser(path)
    if not os.path.isabs(path):  # else it does not matter where we are, which may be nowhere
        path = os.path.join(os.environ.get("TUNE_ORIG_WORKING_DIR") or os.getcwd(), path)
    return os.path.normpath(path)
