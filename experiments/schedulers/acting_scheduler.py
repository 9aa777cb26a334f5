"""The base of schedulers that move, hold back or end trials, and so must agree with checkpoints.

The sweep is saved after a decision, a checkpoint is noted when it is made: a kill in between leaves
a trial that is further than what the saved scheduler knows of it. ASHA is told of the results that
it missed. A scheduler that acts on results cannot be: what it decided has happened. So what it
knows of a trial is noted with each checkpoint, and what concerns several trials (an exploit, the
end of a round) is saved before anything comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler


class ActingScheduler(FIFOScheduler):
    """See above; `experiments.durability.keeper` asks.

    Attributes:
        has_acted: A trial is to go on differently than was last saved: save at once.
    """

    _supports_buffered_results = False
    has_acted = False
    _metric: str | None = None
    _sign = 1.0  # -1 where the objective is minimised

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take over what the tune config optimises."""
        self._metric = metric
        self._sign = -1.0 if mode == "min" else 1.0
        return True

    def is_at_rest(self, trial: Trial) -> bool:
        """Tell whether a trial waits for others, and is saved where it waits.

        A resumed sweep leaves it there; Tune would start it.
        """
        return False

    def trial_state(self, trial: Trial) -> dict[str, Any]:
        """Return what is known of a trial, as JSON; noted with its checkpoint."""
        return {}

    def set_trial_state(self, trial: Trial, state: Mapping[str, Any]) -> None:
        """Take over what was known of a trial at a checkpoint newer than the saved sweep."""


def acting(scheduler: TrialScheduler) -> ActingScheduler:
    """Return the scheduler if it acts; for any other, one that never does and knows nothing."""
    return scheduler if isinstance(scheduler, ActingScheduler) else ActingScheduler()
