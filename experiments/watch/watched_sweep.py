"""A sweep as its folder tells it now: its trials, how each stands, and whether the sweep runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from analysis.home import expanded
from analysis.names import RETURN, sign_of
from analysis.ranking.order import best_first
from analysis.results.load import is_sweep_folder, load_sweep, tune_states
from analysis.results.rows import ResultsError
from analysis.results.spec_file import read_spec_file
from experiments.search.kind import search_kind
from experiments.spec.paths import LOCK_FILE, REPORT_FILE, SPEC_FILE
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.load import spec_space
from experiments.watch.driver import driver_is_alive
from experiments.watch.watched_trial import ENDED, WatchedTrial
from trainables.core.suggestions import suggestion

MOST_POINTS, LEAST_POINTS = 400, 30  # of a trial's curve
_ALL_POINTS = 20_000  # of all curves, unless they are very many
_SILENT_S = 120.0
"""After so long without a result nobody knows whether a sweep on another machine runs."""


class WatchedSweep:
    """A sweep's folder, read again and again.

    Args:
        folder: The sweep's folder; it may be one whose sweep has not begun.
        metric: What trials are judged by; by default the spec's objectives.
        mode: "max" or "min"; by default that of the objective.

    Attributes:
        folder: The absolute path.
        objectives: Metric and mode of each objective.
        total: How many trials there will be; None if that is not known.
        has_final: Whether a final follows the trials.
        trials: The trials, in the order of their numbers.
        is_alive: Whether a driver runs it; None if that cannot be known.

    Raises:
        ResultsError: The folder is no sweep's; the message names those that are near.
    """

    def __init__(self, folder: Path, metric: str | None = None, mode: str | None = None) -> None:
        self.folder = expanded(folder).absolute()
        has_begun = is_sweep_folder(self.folder)
        if not has_begun and not any((self.folder / n).is_file() for n in (SPEC_FILE, LOCK_FILE)):
            load_sweep(self.folder)  # raises: it knows what is wrong
        if mode is not None:
            sign_of(mode)  # raises
        self._metric, self._mode = metric, mode
        self._spec_seen: float | None = -1.0
        self._state_seen: tuple[str, float] | None = None
        self._states: dict[str, dict[str, Any]] = {}  # by the name of the trial's folder
        self._found: dict[str, WatchedTrial] = {}
        self.objectives: list[tuple[str, str]] = []
        self.total: int | None = None
        self.has_final = False
        self.trials: list[WatchedTrial] = []
        self.is_alive: bool | None = None

    def look(self) -> None:
        """Read what is new in the folder."""
        self._read_spec()
        folders = self._list()
        self.is_alive = driver_is_alive(self.folder)
        # Tune's snapshot is some seconds old: there may be younger trials.
        names = [*self._states, *(name for name in folders if name not in self._states)]
        metrics = [metric for metric, _ in self.objectives]
        found = {
            name: self._found.get(name) or WatchedTrial(self.folder / name, metrics)
            for name in names
        }
        self._found = found
        self.trials = list(found.values())
        most = max(LEAST_POINTS, min(MOST_POINTS, _ALL_POINTS // max(len(found), 1)))
        for name, trial in found.items():
            trial.read(most, self._states.get(name, {}), is_alive=self.is_alive)

    def require_metric(self) -> None:
        """Check that trials report the metric that was asked for, as far as any has a result.

        Raises:
            ResultsError: None does; the message names the nearest metrics.
        """
        known = {name for trial in self.trials for name in trial.log.last}
        if self._metric is not None and known and self._metric not in known:
            hint = suggestion(self._metric, sorted(known), most=3, cutoff=0.4)
            raise ResultsError(f"{self.folder}: no trial reports the metric {self._metric!r}{hint}")

    @property
    def phase(self) -> str:
        """How the sweep stands.

        `gone` (the folder), `waiting` (no trial yet), `running`, `closing` (trials have ended, the
        driver runs), `ended`, `stopped` (before all trials ended) or `silent` (nobody knows).
        """
        if not self.folder.is_dir():
            return "gone"
        if not self.trials:
            return "waiting"
        are_over = all(trial.status in ENDED for trial in self.trials)
        is_over = are_over and len(self.trials) >= (self.total or 0)
        if self.is_alive:
            return "closing" if is_over else "running"
        if is_over:
            return "ended"
        if self.is_alive is False:
            return "stopped"
        return "running" if time.time() - self.last_sign < _SILENT_S else "silent"

    @property
    def is_over(self) -> bool:
        """Whether no trial is known to run, and none is about to."""
        return self.phase in ("ended", "stopped", "silent")

    @property
    def report(self) -> Path | None:
        """The report of a sweep that no longer runs, if there is one."""
        path = self.folder / REPORT_FILE
        return path if self.is_over and path.is_file() and not path.is_symlink() else None

    def best_first(self) -> list[WatchedTrial]:
        """Return the trials in the order of the leaderboard: by the first objective."""
        _, mode = self.objectives[0]
        return best_first(
            self.trials,
            mode,
            last=lambda trial: trial.log.course.last,
            course=lambda trial: trial.log.course,
        )

    @property
    def last_sign(self) -> float:
        """When a trial reported last, in seconds since 1970; 0: none has."""
        said = [trial.log.last.get("timestamp") for trial in self.trials]
        return max((float(at) for at in said if isinstance(at, int | float)), default=0.0)

    def _list(self) -> list[str]:
        """Return the names of the trials' folders; read Tune's snapshot if it is a new one."""
        folders, snapshots = [], []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.startswith("experiment_state-"):
                        snapshots.append((entry.name, entry.stat().st_mtime))
                    elif entry.is_dir() and (entry.name in self._found or _is_trial(entry.path)):
                        folders.append(entry.name)
        except OSError:  # it was deleted
            self._states, self._state_seen = {}, None
            return []
        newest = max(snapshots, default=None)
        if newest != self._state_seen:  # it is large, and written seldom
            self._state_seen = newest
            states = tune_states(self.folder) if newest is not None else []
            named = {str(state.get("relative_logdir")): state for state in states}
            # A trial that has not begun has no folder; one that lies elsewhere is not the sweep's.
            self._states = {n: s for n, s in named.items() if n != "None" and "/" not in n}
        return sorted(folders)

    def _read_spec(self) -> None:
        try:
            changed = (self.folder / SPEC_FILE).stat().st_mtime
        except OSError:  # of a plain Tuner
            changed = None
        if changed == self._spec_seen:
            return
        self._spec_seen = changed
        document = read_spec_file(self.folder)
        several = document.get("objectives")
        given = several if isinstance(several, list) and several else [document.get("objective")]
        own = [_objective(entry) for entry in given]
        if self._metric is not None:
            own = [(self._metric, dict(own).get(self._metric, "max"))]
        if self._mode is not None:
            own[0] = (own[0][0], self._mode)
        if own != self.objectives:
            self._found = {}  # curves are of the objectives
        self.objectives = own
        self.total = self._count() if document else None
        self.has_final = bool(document.get("final"))

    def _count(self) -> int | None:
        """Return how many trials the spec asks for; None where it cannot be read any more."""
        try:
            spec = load_sweep_spec(self.folder)
            return search_kind(spec.search).total(spec, spec_space(spec))
        except Exception:  # somebody may have changed it by hand, and the page goes without
            return None


def _objective(entry: Any) -> tuple[str, str]:
    """Return metric and mode; a spec that was changed by hand may hold anything."""
    said = entry if isinstance(entry, dict) else {}
    metric, mode = said.get("metric"), said.get("mode")
    return str(metric or RETURN), "min" if mode == "min" else "max"


def _is_trial(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for name in ("result.json", "params.json"))
