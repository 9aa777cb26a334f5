"""The limit of trials at a time for schedulers whose trials wait for each other."""

from __future__ import annotations

from typing import Any

from ray.tune.search import ConcurrencyLimiter, Searcher


class TogetherLimiter(ConcurrencyLimiter):
    """Lets `max_concurrent` trials be alive, and only says that the search is over when they ended.

    Tune ends the process of a trial that pauses when the search is over and no other trial waits
    for one. A population all pauses: each time it would start its processes anew, in seconds.

    Args:
        searcher: Makes the trials.
        max_concurrent: Trials that may be running or paused.
        total: Trials of the sweep. Tune must be told of one more, or it counts for itself.
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, total: int) -> None:
        super().__init__(searcher, max_concurrent=max_concurrent)
        self.total, self.made = total, 0

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the next trial's settings; None while trials that are alive may still pause."""
        if self.made >= self.total:
            finished: Any = Searcher.FINISHED
            return None if self.live_trials else finished
        suggestion: dict[str, Any] | None = super().suggest(trial_id)
        if isinstance(suggestion, dict):
            self.made += 1
        return suggestion
