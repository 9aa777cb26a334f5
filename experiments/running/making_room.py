"""A sweep of the same name makes room for a new one."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.running.sweep_lock import sweep_lock
from experiments.spec.paths import shown_path
from experiments.sweep.used_folder import check_replaceable, has_results, is_used
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console


def make_room(folder: Path, console: Console, *, overwrite: bool = False) -> None:
    """Move a sweep without any result aside, or delete one that is to be overwritten.

    Args:
        folder: The folder of the new sweep or matrix.
        console: Where it is told.
        overwrite: Whether a sweep with results may be deleted.

    Raises:
        PreflightError: The folder holds results, or is not a sweep's.
        SweepError: The sweep is running in another process.
    """
    check_replaceable(folder, overwrite=overwrite)
    if not is_used(folder):
        return
    with sweep_lock(folder):
        if overwrite and has_results(folder):
            shutil.rmtree(folder)
            say(console, f"{shown_path(folder)} was deleted (--overwrite)")
            return
        numbered = (folder.with_name(f"{folder.name}.old-{n}") for n in count(1))
        aside = next(path for path in numbered if not path.exists())
        folder.rename(aside)
    old = shown_path(folder)
    say(console, f"{old}: a sweep without a result; it is now {shown_path(aside)}")
