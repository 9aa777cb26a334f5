"""The median rule (Golovin et al., 2017) that survives objectives that are not a number."""

from __future__ import annotations

import math
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import MedianStoppingRule, TrialScheduler

from experiments.internals.tune import metric_of, time_attr_of
from experiments.schedulers.kind import Draft, Parts, SchedulerKind, limit_of
from experiments.spec.scheduler_schema import MedianStoppingScheduler


class MedianStoppingKind(SchedulerKind[MedianStoppingScheduler]):
    """Stops a trial whose best is below the median of the others' running means."""

    def complete(self, draft: Draft) -> None:
        if self.options.grace_period is None:
            limit = limit_of(draft, self.options.time_attr, "grace_period")
            self.options.grace_period = max(1, int(limit / 10))

    def build(self, parts: Parts) -> MedianStopping:
        options = self.options.model_dump(exclude={"algorithm"})
        options["min_time_slice"] = math.inf  # it never yields to a waiting trial
        return MedianStopping(**options)


class MedianStopping(MedianStoppingRule):
    """Ray's rule, which would keep every result whole, and stop all trials after a NaN."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Take note of the budget and the objective, if it is a number."""
        seen = self._seen(result)
        if not seen:
            return TrialScheduler.CONTINUE
        decision: str = super().on_trial_result(tune_controller, trial, seen)
        return decision

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Take note of the last result, which Tune does not show at a stop criterion."""
        seen = self._seen(result)
        if seen:
            super().on_trial_complete(tune_controller, trial, seen)

    def _seen(self, result: dict[str, Any]) -> dict[str, float]:
        seen = {key: result.get(key) for key in (time_attr_of(self), str(metric_of(self)))}
        finite = all(isinstance(v, (int, float)) and math.isfinite(v) for v in seen.values())
        return seen if finite else {}  # type: ignore[return-value]  # all are numbers
