"""A line per checkpoint in the trial's folder, written the moment that Tune learns of it.

Tune deletes old checkpoints at once, but notes the new ones only in its next snapshot: a driver
killed in between would resume a trial from a checkpoint that no longer exists. The journal tells
which checkpoints are complete, and holds the result that Tune restores along with each, and what
the scheduler knew of the trial then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune import Checkpoint

from analysis.results.checkpoints import JOURNAL
from experiments.internals.tune import RESULT_ENCODER, TrainingResult, keep_checkpoints
from experiments.trial_info import read_json_lines, trial_folder

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JournalEntry:
    """A complete checkpoint.

    Attributes:
        checkpoint: The name of its folder in the trial's folder.
        result: The result that it is of.
        scheduler: What an `ActingScheduler` knew of the trial then.
        is_new: Whether it was made after the sweep was saved.
    """

    checkpoint: str
    result: dict[str, Any]
    scheduler: dict[str, Any] = field(default_factory=dict)
    is_new: bool = False

    @property
    def index(self) -> int:
        """The running number of the checkpoint, e.g. 3 of `checkpoint_000003`."""
        return int(self.checkpoint.rpartition("_")[2])


def append(trial: Trial, checkpoint_path: str, scheduler: Mapping[str, Any] | None = None) -> None:
    """Note that `checkpoint_path` is complete and belongs to the trial's last result."""
    entry = JournalEntry(Path(checkpoint_path).name, trial.last_result or {}, dict(scheduler or {}))
    _write(trial, entry)


def reopen(trial: Trial) -> None:
    """Note that a trial which had ended goes on: its newest checkpoint is not its last one."""
    entries = read(trial)
    if entries:
        _write(trial, replace(entries[-1], result={**entries[-1].result, "done": False}))


def _write(trial: Trial, entry: JournalEntry) -> None:
    kept = {key: value for key, value in entry.result.items() if key != "config"}
    data: dict[str, Any] = {"checkpoint": entry.checkpoint, "result": kept}
    if entry.scheduler:
        data["scheduler"] = entry.scheduler
    line = json.dumps(data, cls=RESULT_ENCODER) + "\n"
    with (trial_folder(trial) / JOURNAL).open("a", encoding="utf-8") as stream:
        stream.write(line)


def read(trial: Trial) -> list[JournalEntry]:
    """Return the noted checkpoints that still exist, oldest first."""
    folder = trial_folder(trial)
    entries: dict[str, JournalEntry] = {}
    for data in read_json_lines(folder / JOURNAL):
        entry = JournalEntry(data["checkpoint"], data["result"], data.get("scheduler", {}))
        if (folder / entry.checkpoint).is_dir():
            entries.pop(entry.checkpoint, None)  # written again by a resumed trial: now the newest
            entries[entry.checkpoint] = entry
    return list(entries.values())


def adopt(trial: Trial) -> JournalEntry | None:
    """Bring the checkpoints that a resumed trial knows of in line with those on disk.

    Checkpoints that were deleted after Tune's snapshot are forgotten, those made after it become
    known.

    Returns:
        The newest checkpoint's entry, if there is one.
    """
    entries = read(trial)
    manager, storage = trial.run_metadata.checkpoint_manager, trial.storage
    assert manager is not None
    assert storage is not None
    latest = manager.latest_checkpoint_result
    known = {_path(kept).name for kept in manager.best_checkpoint_results}
    if latest is not None:
        known.add(_path(latest).name)
    keep_checkpoints(trial, lambda kept: _path(kept).is_dir())
    for entry in entries:
        if entry.checkpoint in known:
            continue
        path = str(trial_folder(trial) / entry.checkpoint)
        checkpoint = Checkpoint(path, filesystem=storage.storage_filesystem)
        manager.register_checkpoint(TrainingResult(checkpoint, dict(entry.result)))
    if entries:
        newest = max(entry.index for entry in entries)
        storage.current_checkpoint_index = max(storage.current_checkpoint_index, newest)
    trial.invalidate_json_state()
    trial.run_metadata.invalidate_cache()
    return replace(entries[-1], is_new=entries[-1].checkpoint not in known) if entries else None


def _path(kept: TrainingResult) -> Path:
    assert kept.checkpoint is not None
    return Path(kept.checkpoint.path)
