"""Configurations that a sweep trained several times, a trial for each seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from analysis.curves.run_curves import trial_curve
from analysis.overview.overview import ReportData
from analysis.ranking.leaderboard import Score
from analysis.ranking.order import of_runs
from analysis.results.records import TrialRecord
from analysis.results.rows import flatten
from analysis.statistics import iqm, iqm_interval

_SEED = "seed"


@dataclass(frozen=True)
class Group:
    """One configuration and its runs.

    Attributes:
        settings: The settings that vary, without the seed.
        values: The last finite value of each run by its seed; of runs that failed or diverged there
            is none.
        lost: How many runs failed or diverged.
        iqm: Their interquartile mean.
        low: Lower end of its 95 % percentile bootstrap interval.
        high: Upper end; both are NaN of a single run.
    """

    settings: dict[str, Any]
    values: dict[int, float]
    lost: int
    iqm: float
    low: float
    high: float

    @property
    def share_lost(self) -> float:
        """The part of the runs that failed or diverged."""
        return self.lost / (self.lost + len(self.values))


def groups(data: ReportData) -> list[Group]:
    """Return the configurations over seeds, best first; none where a trial is no single seed.

    A sweep counts as one over seeds where the setting `seed` varies and most configurations have
    two seeds or more. One that lost runs is behind those that lost fewer: the seeds on which it did
    well would speak for it. One that lost all of them is not among them.
    """
    if _SEED not in data.settings or data.seeds:
        return []
    others = [name for name in data.settings if name != _SEED]
    found: dict[str, tuple[dict[str, Any], dict[int, Score], list[str]]] = {}
    for trial, score in data.ranked:
        lost = ended_badly(trial, data.metric)
        if not score.found and not lost:
            continue  # it has only begun
        flat = flatten(trial.config)
        settings = {name: flat.get(name) for name in others}
        key = json.dumps(settings, sort_keys=True, default=str)
        _, values, gone = found.setdefault(key, (settings, {}, []))
        if lost:
            gone.append(trial.trial_id)
        else:
            values.setdefault(int(flat[_SEED]), score)
    if sum(len(values) + len(gone) > 1 for _, values, gone in found.values()) * 2 <= len(found):
        return []
    made = []
    for settings, values, gone in found.values():
        if not values:
            continue
        scores = [score.last for score in values.values()]
        low, high = iqm_interval(scores)
        ordered = {seed: score.last for seed, score in sorted(values.items())}
        group = Group(settings, ordered, len(gone), iqm(scores), low, high)
        ties = of_runs([score.course for score in values.values()], data.mode)
        made.append(((group.share_lost, -data.sign * group.iqm, *ties), group))
    return [group for _, group in sorted(made, key=lambda placed: placed[0])]


def ended_badly(trial: TrialRecord, metric: str) -> bool:
    """Tell whether the run failed, or ended without a finite value."""
    if trial.status == "ERROR":
        return True
    return trial.status == "TERMINATED" and trial_curve(trial, metric).diverged
