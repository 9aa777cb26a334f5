"""A donor's checkpoint for the trial that goes on from it, which nobody else deletes.

The donor keeps training and deletes its older checkpoints; and a sweep that is resumed finds a
trial's checkpoint by its place in the trial's own folder. So the trial gets a copy there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune import Checkpoint

from experiments.internals.tune import TrainingResult
from experiments.result_rows import ROWS_UNTIL, row_identity

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

PREFIX = "exploit_"
_KEPT = 2  # the one before the newest may be what the last save of the sweep refers to


def adopt_donor(
    trial: Trial, checkpoint: TrainingResult, number: int, last: Mapping[str, Any]
) -> TrainingResult:
    """Copy a donor's checkpoint into a trial's folder, by hard links where there are any.

    Args:
        trial: Goes on from it.
        checkpoint: Of the donor, with its result.
        number: Of the exploit, unique in the sweep.
        last: The trial's own last result.
    """
    source, storage = checkpoint.checkpoint, trial.storage
    assert source is not None
    assert storage is not None
    folder = Path(storage.trial_fs_path)
    target = folder / f"{PREFIX}{number:06d}"
    shutil.rmtree(target, ignore_errors=True)  # of an exploit that a kill undid
    shutil.copytree(source.path, target, copy_function=_link)
    for old in sorted(folder.glob(f"{PREFIX}*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    copied = Checkpoint(str(target), filesystem=storage.storage_filesystem)
    return TrainingResult(copied, {**checkpoint.metrics, ROWS_UNTIL: row_identity(last)})


def _link(source: str, target: str) -> Any:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)
    return target
