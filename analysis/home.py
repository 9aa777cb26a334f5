"""Paths that begin with `~` or `~user`."""

from __future__ import annotations

import os
from pathlib import Path

from analysis.errors import ResultsError


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return the path with the home folder that `~` or `~user` stands for.

    Raises:
        ResultsError: There is no such user on this machine.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise ResultsError(f"{path}: {user} is no user's home on this machine") from None
