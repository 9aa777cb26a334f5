"""A sweep as records, one per trial: read from a folder's JSON files or a `ResultGrid`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from analysis.names import HOST, finite, host_of
from analysis.results.checkpoints import POLICY, CheckpointRecord, find_checkpoints
from analysis.results.rows import ResultsError
from analysis.results.shared_time import own_seconds, shares_of_time
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from ray.tune import ResultGrid

    Source: TypeAlias = "ResultGrid | Sweep | str | os.PathLike[str]"
    """What holds a sweep's results; see `load_sweep`."""

__all__ = [
    "MLFLOW",
    "POLICY",
    "CheckpointRecord",
    "ResultsError",
    "Sweep",
    "TrialRecord",
]

MLFLOW = "mlflow:"
"""What a source begins with that is read from MLflow."""


@dataclass
class TrialRecord:
    """One trial: what it was asked to do and everything it reported.

    Attributes:
        trial_id: Tune's id.
        path: The trial's folder.
        status: Tune's word for it: `TERMINATED`, `ERROR`, `RUNNING`, `PENDING`, `PAUSED`.
            A sweep that was killed, interrupted or out of time leaves trials that say `RUNNING`.
        config: The nested config that the trial used last.
        searched: The flat names (`model/vf_share_layers`) of what the search set.
        frame: One row per training iteration, in order, a column per metric.
        row_configs: The config of each row where it changed on the way (PBT), else None.
        held: Tune's resources for the trial (`CPU`, `GPU`, …), as far as a `ResultGrid` told
            them; a folder does not.
        told: The results of checkpoints by the names of their folders, where Tune told them.
        time_shares: `[rows]`: which part of each iteration's seconds is its own, where it shared
            a process with others of its sweep; else None.
    """

    trial_id: str
    path: Path
    status: str
    config: dict[str, Any]
    searched: tuple[str, ...]
    frame: pd.DataFrame
    row_configs: list[dict[str, Any]] | None = None
    held: Mapping[str, float] | None = None
    told: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    time_shares: np.ndarray | None = None

    def last(self, name: str) -> float | None:
        """Return the last finite value of a column; None if it has none."""
        values = finite(self.frame.get(name))
        return float(values.iloc[-1]) if len(values) else None

    def seconds(self) -> pd.Series:
        """Return the training time at each row, of shared time its share; NaN where unknown."""
        return own_seconds(self.frame, self.time_shares)

    @property
    def host(self) -> int | None:
        """Which of its sweep's processes trained it last; None where it had one of its own."""
        if HOST not in self.frame or not len(self.frame):
            return None
        return host_of({HOST: self.frame[HOST].iloc[-1]})

    @property
    def checkpoints(self) -> list[CheckpointRecord]:
        """Those whose result is known, oldest first."""
        return self._checkpoints[0]

    @property
    def unplaced(self) -> list[Path]:
        """Checkpoint folders that do not say at which iteration they were taken."""
        return self._checkpoints[1]

    @cached_property
    def _checkpoints(self) -> tuple[list[CheckpointRecord], list[Path]]:
        # Only when asked for: frames of a thousand trials need none.
        return find_checkpoints(self.path, self.frame, self.told)


@dataclass
class Sweep:
    """All trials of a sweep, in the order in which they were created."""

    name: str
    path: Path
    trials: list[TrialRecord] = field(repr=False)

    def __post_init__(self) -> None:
        shares = shares_of_time([trial.frame for trial in self.trials])
        for trial, of_trial in zip(self.trials, shares, strict=True):
            trial.time_shares = of_trial

    @property
    def hosts(self) -> dict[int, int]:
        """How many trials each of the processes that several share trained last."""
        found = Counter(trial.host for trial in self.trials)
        return {host: found[host] for host in sorted(h for h in found if h is not None)}

    def require_metric(self, metric: str) -> None:
        """Check that some trial reported `metric`.

        Raises:
            ResultsError: No trial did; the message names the nearest metrics.
        """
        columns = {str(c) for trial in self.trials for c in trial.frame.columns}
        known = sorted(columns - {HOST})
        if metric in known:
            for trial in self.trials:
                if metric in trial.frame and not is_numeric_dtype(trial.frame[metric]):
                    raise ResultsError(f"{trial.path}: the metric {metric!r} is not a number there")
            return
        if not known:
            raise ResultsError(f"{self.path}: no trial has reported a result yet")
        hint = suggestion(metric, known, most=3, cutoff=0.4)
        raise ResultsError(f"{self.path}: no trial reported the metric {metric!r}{hint}")
