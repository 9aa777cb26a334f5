"""How the best configurations of a search did on seeds that the search never saw."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.names import sign_of
from analysis.ranking.best import BestCheckpoint
from analysis.ranking.leaderboard import ranked
from analysis.results.records import Sweep, TrialRecord
from analysis.statistics import iqm, iqm_interval, median_index

Setting = tuple[str, ...]


@dataclass
class Candidate:
    """One of the best configurations of a search.

    Attributes:
        trial_id: The id of the search's best trial with it.
        settings: The searched settings, by dotted name.
        search_last: What the search ranked it by: the value at the end of that trial.
        search_best: The best value that the trial ever reported.
        runs: Finished held-out runs by seed.
        values: The objective at the end of each, by seed; of runs that diverged there is none.
    """

    trial_id: str
    settings: dict[str, Any]
    search_last: float
    search_best: float
    runs: dict[int, TrialRecord] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)

    @property
    def held_out(self) -> float:
        """The interquartile mean over the held-out seeds; NaN without two of them."""
        return iqm(list(self.values.values())) if len(self.values) > 1 else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % percentile bootstrap interval."""
        return iqm_interval(list(self.values.values()))

    def optimism(self, mode: str) -> float:
        """Return how much better the search's value was than the held-out one, both at the end."""
        return sign_of(mode) * (self.search_last - self.held_out)

    @property
    def median_seed(self) -> int:
        """The held-out seed whose value is the median."""
        return list(self.values)[median_index(list(self.values.values()))]

    def checkpoint(self, metric: str, sweep: str) -> BestCheckpoint | None:
        """Return the last checkpoint of the median seed's run, if there is one."""
        run = self.runs[self.median_seed]
        # One that does not say at which iteration it was taken is taken for the last one's.
        known = {checkpoint.path: checkpoint.metrics for checkpoint in run.checkpoints}
        paths = [*known, *run.unplaced]
        if not paths:
            return None
        path = max(paths, key=lambda path: path.name)
        metrics = known.get(path) or {str(k): v for k, v in run.frame.iloc[-1].items()}
        return BestCheckpoint(path, run, float(metrics.get(metric, float("nan"))), metrics, sweep)


def candidates(
    search: Sweep, metric: str, mode: str, top: int, settings: Sequence[Setting]
) -> list[Candidate]:
    """Return the best configurations of a search, best first; trials that failed are none.

    Args:
        search: The sweep.
        metric: The objective.
        mode: "max" or "min".
        top: How many at most.
        settings: The paths of the searched settings.
    """
    found: dict[str, Candidate] = {}
    for trial, score in ranked(search, metric, mode):
        if not score.found or trial.status == "ERROR":
            continue
        chosen = searched_settings(trial.config, settings)
        found.setdefault(_key(chosen), Candidate(trial.trial_id, chosen, score.last, score.best))
    return list(found.values())[:top]


def add_runs(
    found: Iterable[Candidate], finals: Iterable[Sweep], metric: str, settings: Sequence[Setting]
) -> None:
    """Note the finished held-out runs of each candidate.

    Args:
        found: The candidates; changed in place.
        finals: Sweeps with a trial for each candidate and held-out seed.
        metric: The objective.
        settings: The paths of the searched settings.
    """
    by_key = {_key(candidate.settings): candidate for candidate in found}
    for final in finals:
        for run in final.trials:
            candidate = by_key.get(_key(searched_settings(run.config, settings)))
            if candidate is None or run.status != "TERMINATED" or metric not in run.frame:
                continue
            # Not the last finite value: a run that ended in NaN has diverged.
            value = pd.to_numeric(run.frame[metric], errors="coerce").iloc[-1]
            if not np.isfinite(value):
                continue
            seed = int(run.config["seed"])
            candidate.runs[seed] = run
            candidate.values[seed] = float(value)


def winner(found: Iterable[Candidate], mode: str) -> Candidate | None:
    """Return the candidate with the best held-out interquartile mean, if any has two finished runs.

    One whose runs failed or diverged on some seeds loses to one that has more of them: else those
    seeds on which it does well would speak for it.
    """
    judged = [candidate for candidate in found if len(candidate.values) > 1]

    def key(candidate: Candidate) -> tuple[int, float]:
        return len(candidate.values), sign_of(mode) * candidate.held_out

    return max(judged, key=key, default=None)


def winner_caution(found: Iterable[Candidate]) -> str:
    """Say what a report says of the winner's own value; empty if there was no choice."""
    count = sum(len(candidate.values) > 1 for candidate in found)
    if count < 2:
        return ""
    return (
        f"The winner's held-out value is the best of {count}, so it is a little optimistic, too. "
        "Its interval does not account for that."
    )


def searched_settings(config: dict[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """Return a config's searched settings by dotted name; inactive ones are left out."""
    chosen = {}
    for path in settings:
        node: Any = config
        for key in path:
            if not isinstance(node, dict) or key not in node:
                break
            node = node[key]
        else:
            chosen[".".join(path)] = node
    return chosen


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, default=str)
