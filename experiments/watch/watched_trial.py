"""A trial that is watched: how it stands, by its own files and by Tune's snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.results.failures import shown_cause
from analysis.results.load import last_result
from analysis.results.rows import as_config, flatten, read_json
from experiments.trial_info import PRUNED
from experiments.watch.trial_log import TrialLog

ENDED = ("finished", "pruned", "failed")
_STATUS_OF_TUNE = {"PENDING": "pending", "PAUSED": "paused"}
_END = "tunescape_end"  # in a trial's state: the last result that Tune has of it


class WatchedTrial:
    """A trial of the sweep.

    Args:
        folder: Its folder.
        metrics: The objectives.

    Attributes:
        trial_id: Tune's id; the folder's name until a result or Tune's snapshot says it.
        log: What it reported.
        status: `pending`, `running`, `paused`, `finished`, `pruned`, `failed` or `interrupted`.
        config: The nested config that it began with.
        settings: Its config as it is now, flat.
        searched: The flat names of what the search set.
        cause: Why it failed; "" if it did not.
    """

    def __init__(self, folder: Path, metrics: Sequence[str]) -> None:
        self._folder = folder
        self.trial_id = folder.name
        self.log = TrialLog(folder, metrics)
        self.status = "running"
        self.config: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.searched: tuple[str, ...] = ()
        self.cause = ""

    def read(self, most_points: int, state: dict[str, Any], *, is_alive: bool | None) -> None:
        """Read what is new.

        Args:
            most_points: How many points its curve may have; see `TrialLog.read`.
            state: What Tune's snapshot says of it; {}: nothing yet.
            is_alive: Whether a driver runs the sweep; None: unknown.
        """
        changed, last = self.log.read(most_points), self.log.last
        self.trial_id = str(state.get("trial_id") or last.get("trial_id") or self._folder.name)
        self.status = self._status(state, is_alive)
        searched = state.get("evaluated_params")
        self.searched = tuple(map(str, searched)) if isinstance(searched, dict) else ()
        if changed:
            self.config, self.settings = self.log.first_config, flatten(self.log.config)
        if not self.settings:
            params = self._folder / "params.json"
            self.config = as_config(state.get("config") or read_json(params))
            self.settings = flatten(self.config)
        if self.status != "failed":
            self.cause = ""
        elif not self.cause:
            self.cause = shown_cause(self._error())

    def _status(self, state: dict[str, Any], is_alive: bool | None) -> str:
        last, said = self.log.last, state.get("status")
        if last.get("done"):
            return "pruned" if last.get(PRUNED) else "finished"
        if said == "ERROR" or (not last and (self._folder / "error.txt").exists()):
            return "failed"
        if said == "TERMINATED":
            if _END not in state:  # once for each snapshot: it is long
                state[_END] = last_result(state) or {}
            end = state[_END]
            if not (end.get("done") or PRUNED in end):
                return "interrupted"
            return "pruned" if end.get(PRUNED) else "finished"
        if is_alive is False:
            return "interrupted"
        return _STATUS_OF_TUNE.get(str(said), "running")

    def _error(self) -> str:
        try:
            return (self._folder / "error.txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
