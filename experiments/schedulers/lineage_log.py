"""`lineage.jsonl` in a sweep's folder: a line for every exploit of a population.

The file is staged with the rest of Tune's state, so a save of the sweep holds either both an
exploit and its line or neither: what is in the file has happened, also after a kill and a resume.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.overview.lineage import LINEAGE_FILE
from experiments.internals.tune import RESULT_ENCODER, storage_of

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class LineageLog:
    """Appends to the lineage of the sweep that a controller runs."""

    def __init__(self) -> None:
        self._file: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": None}  # a resumed sweep has another staging folder

    def append(self, controller: TuneController, entry: Mapping[str, Any]) -> None:
        """Write one line."""
        if self._file is None:
            self._file = self._open(controller)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, cls=RESULT_ENCODER) + "\n")

    @staticmethod
    def _open(controller: TuneController) -> Path:
        """Return the staged file, with the lines that the saved sweep has: no more and no fewer."""
        storage: Any = storage_of(controller)
        staged = Path(storage.experiment_driver_staging_path, LINEAGE_FILE)
        saved = Path(storage.experiment_fs_path, LINEAGE_FILE)
        if saved != staged:
            staged.unlink(missing_ok=True)
            if saved.is_file():
                shutil.copyfile(saved, staged)
        return staged
