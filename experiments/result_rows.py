"""`result.json` in each trial's folder: a row for every result, and each iteration's row once.

Tune only ever adds to the file. A trial that was cut off, because its process or the driver died,
goes on from its latest checkpoint and reports again what it had reported after it. So what the
file has after that checkpoint's row is taken back when the trial starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune.logger import JsonLoggerCallback

from analysis.names import ITERATION, SECONDS

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

ROWS_UNTIL = "rows_until"
"""Key of a checkpoint's result that is another trial's: the last own row before it was adopted."""

_IDENTITY = (ITERATION, SECONDS)  # a population's trial repeats iterations


class ResultRows(JsonLoggerCallback):
    """Tune's writer of `result.json`, which takes back rows that are reported again."""

    def _restore_from_remote(self, file_name: str, trial: Trial) -> None:
        """Called by Tune before it opens a trial's file: see that it ends with the checkpoint."""
        local = Path(trial.local_path or ".", file_name)
        if not local.exists():  # else this driver wrote it, and the sweep's folder may be behind
            super()._restore_from_remote(file_name, trial)
        checkpoint = trial.latest_checkpoint_result
        cut_back(local, checkpoint.metrics if checkpoint is not None else {})


def row_identity(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a trial's row from its others, also where iterations repeat."""
    return {key: result.get(key) for key in _IDENTITY}


def cut_back(path: Path, checkpoint: Mapping[str, Any]) -> int:
    """Take back what a trial's rows have after those of its checkpoint.

    Args:
        path: Its `result.json`; there may be none.
        checkpoint: The checkpoint's result; {}: none, the trial starts from the beginning.

    Returns:
        How many lines were taken back: 0 too where the checkpoint's row is not found.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    kept = _num_kept(lines, checkpoint.get(ROWS_UNTIL) or row_identity(checkpoint))
    if kept is None or kept == len(lines):
        return 0
    # Another file, not a shorter one: what is copied by its growth is copied whole then.
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(b"".join(lines[:kept]))
    os.replace(part, path)
    return len(lines) - kept


def _num_kept(lines: list[bytes], last: Mapping[str, Any]) -> int | None:
    if not last.get(ITERATION):
        return 0
    for number in range(len(lines), 0, -1):
        try:
            row = json.loads(lines[number - 1])
        except ValueError:  # cut short by a kill
            continue
        if row_identity(row) == dict(last):
            return number
    return None
