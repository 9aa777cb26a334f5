"""Files in each trial's folder besides `result.json`: `progress.csv`, and TensorBoard's events.

They replace Tune's own, which write after every result: its CSV leaves out what the first result
lacks, and its TensorBoard files are synced to the disk each time.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune

from analysis.names import ENV_STEPS, ITERATION
from analysis.results.rows import flatten
from experiments.internals.tune import RESULT_FILE
from experiments.result_rows import ResultRows
from experiments.tracking.names import as_text
from experiments.trial_info import numeric_metrics, read_json_lines

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

CSV_FILE = "progress.csv"
_FLUSH_S = 30


def file_loggers(names: Sequence[str]) -> list[tune.Callback]:
    """Return the callbacks of a spec's `loggers`. JSON is always one: the analysis reads it."""
    others = {"csv": CsvFiles, "tensorboard": TensorBoardFiles}
    return [ResultRows(), *(others[name]() for name in names if name in others)]


class _PerTrial(tune.Callback):
    """Calls `_end` once for every trial, also for those that the end of the sweep cuts off.

    A full disk is reported once, not raised: an exception here would end the sweep.
    """

    def __init__(self) -> None:
        self._running: dict[str, Trial] = {}
        self._reported = False

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the live trials out of Tune's tuner.pkl."""
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._running = {}
        self._reported = False

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._running[trial.trial_id] = trial

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        self._try(self._end, trial)
        self._running.pop(trial.trial_id, None)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self.on_trial_complete(iteration, trials, trial)

    def on_experiment_end(self, trials: list[Trial], **_: Any) -> None:
        for trial in self._running.values():
            self._try(self._end, trial)
        self._running.clear()

    def _try(self, write: Callable[..., None], trial: Trial, *args: Any) -> None:
        try:
            write(trial, *args)
        except OSError as error:
            if not self._reported:
                logger.error("%s: a file could not be written: %s", trial.local_path, error)
            self._reported = True

    def _end(self, trial: Trial) -> None:
        raise NotImplementedError


class CsvFiles(_PerTrial):
    """Writes `progress.csv` when a trial ends, from its `result.json`.

    So it costs nothing while the trial runs, and has a column for every key of every result: empty
    in the rows that lack it. Of an iteration that a trial reports twice the last counts.
    """

    def _end(self, trial: Trial) -> None:
        folder = Path(trial.local_path or ".")  # Tune has made it: the trial has results
        rows: dict[Any, dict[str, Any]] = {}
        for row in read_json_lines(folder / RESULT_FILE):
            row.pop("config", None)  # it is in params.json
            rows[row.get(ITERATION)] = flatten(row)
        if not rows:
            return
        columns = list(dict.fromkeys(key for row in rows.values() for key in row))
        part = folder / f".{CSV_FILE}.part"
        try:
            with part.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                for row in rows.values():
                    writer.writerow({k: "" if v is None else as_text(v) for k, v in row.items()})
            part.replace(folder / CSV_FILE)
        finally:
            part.unlink(missing_ok=True)  # what a full disk cut short


class TensorBoardFiles(_PerTrial):
    """Writes metrics by env step as TensorBoard events: `tensorboard --logdir runs/<name>`."""

    def __init__(self) -> None:
        super().__init__()
        self._writers: dict[str, Any] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._writers = {}

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        self._try(self._add, trial, result)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._try(self._end, trial)  # a new file says from which step on the old one is void

    def _add(self, trial: Trial, result: dict[str, Any]) -> None:
        values, _non_finite = numeric_metrics(result)
        step = int(values.get(ENV_STEPS, values.get(ITERATION, 0)))
        writer = self._writers.get(trial.trial_id)
        if writer is None:
            from tensorboardX import SummaryWriter  # slow: it imports torch

            # What a resumed trial had written beyond this step is reported again.
            writer = SummaryWriter(trial.local_path, flush_secs=_FLUSH_S, purge_step=step)
            self._writers[trial.trial_id] = writer
        for name, value in values.items():
            writer.add_scalar(name, value, step, walltime=result.get("timestamp"))

    def _end(self, trial: Trial) -> None:
        writer = self._writers.pop(trial.trial_id, None)
        if writer is not None:
            writer.close()
