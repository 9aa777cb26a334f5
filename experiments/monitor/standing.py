"""Which settings differ between trials, kept up as trials start.

Looked up anew for each line of output, it would take longer with every trial of a long sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.results.rows import flatten

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class Standing:
    """What a line about one trial has to know of all others."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # each setting's first value
        self._varying: set[str] = set()
        self._known: set[str] = set()

    def varying(self, trials: list[Trial], trial: Trial) -> list[str]:
        """Return the searched settings that differ between trials; of a single one all.

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
