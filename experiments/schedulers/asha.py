"""ASHA (Li et al., 2020) that judges trials whose objective is not a number."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler

from experiments.internals.tune import metric_of, sign_of
from experiments.schedulers.halving import HalvingKind
from experiments.schedulers.kind import Parts
from experiments.spec.scheduler_schema import AshaScheduler

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

# Not infinity: a cutoff is interpolated between scores, and would not be a number.
_WORST = 1e300


class Asha(HalvingKind[AshaScheduler]):
    """Asynchronous successive halving: one in so many trials goes on at each rung."""

    def build(self, parts: Parts) -> FiniteAsha:
        return FiniteAsha(**self.options.model_dump(exclude={"algorithm"}))

    def extend(self, metric: str, limit: float) -> None:
        if self.options.time_attr == metric:
            self.options.max_t = int(limit)  # as `grace_period` stays, so do the rungs


class FiniteAsha(AsyncHyperBandScheduler):
    """Ray's ASHA, for which an objective that is NaN or infinite is the worst of all.

    To Ray's own NaN is below no cutoff, so that a diverged trial runs on to the next rung and the
    next; and one infinite score makes a rung's cutoff NaN, after which nobody is stopped there.
    """

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Stop the trial if it is among the worst at a rung."""
        decision: str = super().on_trial_result(tune_controller, trial, self._judged(result))
        return decision

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> None:
        """Take note of the last result, which Tune does not show at a stop criterion."""
        super().on_trial_complete(tune_controller, trial, self._judged(result))

    def _judged(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result, with the worst finite number for an objective that is not finite."""
        metric, sign = str(metric_of(self)), sign_of(self)
        if metric not in result:
            return result
        return {**result, metric: sign * score(result[metric], sign)}


def score(value: Any, sign: float) -> float:
    """Return an objective such that more is better; the worst finite number for what is not one.

    Args:
        value: The objective as it was reported.
        sign: -1 if it is minimised, else 1.
    """
    number = isinstance(value, Real) and math.isfinite(value)
    return sign * float(value) if number else -_WORST
