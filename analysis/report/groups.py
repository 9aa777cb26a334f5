"""Configurations that a sweep trained several times, a trial for each seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from analysis.report.data import ReportData
from analysis.rows import flatten
from analysis.statistics import iqm, iqm_interval

_SEED = "seed"


@dataclass(frozen=True)
class Group:
    """One configuration and its runs.

    Attributes:
        settings: The settings that vary, without the seed.
        values: The last finite value of each run by its seed.
        iqm: Their interquartile mean.
        low: Lower end of its 95 % percentile bootstrap interval.
        high: Upper end.
    """

    settings: dict[str, Any]
    values: dict[int, float]
    iqm: float
    low: float
    high: float


def groups(data: ReportData) -> list[Group]:
    """The configurations of a sweep over seeds, best first; none where a trial is no single seed.

    A sweep counts as one over seeds where the setting ``seed`` varies and most configurations have
    two seeds or more.
    """
    if _SEED not in data.settings or data.seeds:
        return []
    others = [name for name in data.settings if name != _SEED]
    found: dict[str, tuple[dict[str, Any], dict[int, float]]] = {}
    for trial, score in data.ranked:
        if not score.found:
            continue
        flat = flatten(trial.config)
        settings = {name: flat.get(name) for name in others}
        key = json.dumps(settings, sort_keys=True, default=str)
        found.setdefault(key, (settings, {}))[1].setdefault(int(flat[_SEED]), score.last)
    if sum(len(values) > 1 for _, values in found.values()) * 2 <= len(found):
        return []
    made = []
    for settings, values in found.values():
        scores = list(values.values())
        low, high = iqm_interval(scores)
        made.append(Group(settings, dict(sorted(values.items())), iqm(scores), low, high))
    return sorted(made, key=lambda group: -data.sign * group.iqm)
