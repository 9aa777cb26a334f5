"""A sweep as its folder tells it now: its trials, how each stands, and whether the sweep runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.home import expanded
from analysis.names import RETURN, sign_of
from analysis.ranking.order import best_first
from analysis.results.failures import shown_cause
from analysis.results.load import is_sweep_folder, last_result, load_sweep, tune_states
from analysis.results.rows import as_config, flatten, read_json
from analysis.results.spec_file import read_spec_file
from experiments.search.kind import search_kind
from experiments.spec.paths import LOCK_FILE, REPORT_FILE, SPEC_FILE
from experiments.sweep.folder import load_sweep_spec
from experiments.sweep.load import spec_space
from experiments.trial_info import PRUNED
from experiments.watch.driver import driver_is_alive
from experiments.watch.trial_log import TrialLog

MOST_POINTS, LEAST_POINTS = 400, 30  # of a trial's curve
_ALL_POINTS = 20_000  # of all curves, unless they are very many
_SILENT_S = 120.0
"""After so long without a result nobody knows whether a sweep on another machine runs."""

_END = "tunescape_end"  # in a trial's state: the last result that Tune has of it

ENDED = ("finished", "pruned", "failed")
_STATUS_OF_TUNE = {"PENDING": "pending", "PAUSED": "paused"}


@dataclass
class WatchedTrial:
    """A trial of the sweep.

    Attributes:
        trial_id: Tune's id; the folder's name until a result or Tune's snapshot says it.
        log: What it reported.
        status: `pending`, `running`, `paused`, `finished`, `pruned`, `failed` or `interrupted`.
        config: Its nested config, until a result says it.
        settings: Its config as it is now, flat.
        searched: The flat names of what the search set.
        cause: Why it failed; "" if it did not.
    """

    trial_id: str
    log: TrialLog
    status: str = "running"
    config: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    cause: str = ""


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
            name: self._found.get(name) or WatchedTrial(name, TrialLog(self.folder / name, metrics))
            for name in names
        }
        self._found = found
        self.trials = list(found.values())
        most = max(LEAST_POINTS, min(MOST_POINTS, _ALL_POINTS // max(len(found), 1)))
        for name, trial in found.items():
            changed = trial.log.read(most)
            self._update(trial, self.folder / name, self._states.get(name, {}), changed)

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
    def report(self) -> Path | None:
        """The report of a sweep that no longer runs, if there is one."""
        path = self.folder / REPORT_FILE
        is_over = self.phase in ("ended", "stopped", "silent")
        return path if is_over and path.is_file() and not path.is_symlink() else None

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
            self._states = {str(state.get("relative_logdir")): state for state in states}
            self._states.pop("None", None)  # a trial that has not begun has no folder
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
        given = document.get("objectives") or [document.get("objective") or {}]
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

    def _update(
        self, trial: WatchedTrial, folder: Path, state: dict[str, Any], changed: bool
    ) -> None:
        last = trial.log.last
        trial.trial_id = str(state.get("trial_id") or last.get("trial_id") or folder.name)
        trial.status = self._status(trial, folder, state)
        searched = state.get("evaluated_params")
        trial.searched = tuple(map(str, searched)) if isinstance(searched, dict) else ()
        if changed:
            trial.settings = flatten(trial.log.config)
        if not trial.settings:
            trial.config = as_config(state.get("config") or read_json(folder / "params.json"))
            trial.settings = flatten(trial.config)
        if trial.status != "failed":
            trial.cause = ""
        elif not trial.cause:
            trial.cause = shown_cause(_text(folder / "error.txt"))

    def _status(self, trial: WatchedTrial, folder: Path, state: dict[str, Any]) -> str:
        last, said = trial.log.last, state.get("status")
        if last.get("done"):
            return "pruned" if last.get(PRUNED) else "finished"
        if said == "ERROR" or (not last and (folder / "error.txt").exists()):
            return "failed"
        if said == "TERMINATED":
            if _END not in state:
                state[_END] = last_result(state) or {}
            end = state[_END]
            if not (end.get("done") or PRUNED in end):
                return "interrupted"
            return "pruned" if end.get(PRUNED) else "finished"
        if self.is_alive is False:
            return "interrupted"
        return _STATUS_OF_TUNE.get(str(said), "running")


def _objective(entry: Any) -> tuple[str, str]:
    """Return metric and mode; a spec that was changed by hand may hold anything."""
    said = entry if isinstance(entry, dict) else {}
    metric, mode = said.get("metric"), said.get("mode")
    return str(metric or RETURN), "min" if mode == "min" else "max"


def _is_trial(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/{name}") for name in ("result.json", "params.json"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
