"""Which settings differ between trials and which trial leads, kept up as trials start and end.

Looked up anew for each line of output, both would take longer with every trial of a long sweep.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.rows import flatten

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class Standing:
    """What a line about one trial has to know of all others.

    Args:
        metric: the objective.
        mode: "max" or "min".
    """

    def __init__(self, metric: str, mode: str) -> None:
        self._metric = metric
        self._sign = 1.0 if mode == "max" else -1.0
        self._first: dict[str, str] = {}  # each setting's first value
        self._varying: set[str] = set()
        self._known: set[str] = set()
        self._best = -math.inf

    def varying(self, trials: list[Trial], trial: Trial) -> list[str]:
        """The searched settings that differ between trials; of a single one all.

        Args:
            trials: all trials; those made before a resume are looked at once.
            trial: the one that starts.
        """
        for other in trials if not self._known else [trial]:
            if other.trial_id not in self._known:
                self._known.add(other.trial_id)
                for key, value in flatten(other.evaluated_params or {}).items():
                    if self._first.setdefault(key, repr(value)) != repr(value):
                        self._varying.add(key)
        return [key for key in self._first if key in self._varying or len(self._known) < 2]

    def leads(self, trial: Trial) -> bool:
        """Whether a trial that ended is the best so far of those that ended."""
        value = (trial.last_result or {}).get(self._metric)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if not math.isfinite(value) or self._sign * value <= self._best:
            return False
        self._best = self._sign * value
        return True
