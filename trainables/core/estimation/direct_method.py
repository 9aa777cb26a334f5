"""Direct method: what a Q-function of the target policy says of where episodes begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from trainables.core.config.recorded.estimators import DirectMethodSettings
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.evaluator import Estimate
from trainables.core.estimation.intervals import NO_INTERVAL, Interval
from trainables.core.estimation.q_estimation import ModelBasedEstimator
from trainables.core.estimation.target_policy import TargetPolicy


@dataclass
class DirectMethod(DirectMethodSettings, ModelBasedEstimator):
    """The mean of V over first observations. It needs no overlap of whole episodes.

    How far off it is depends on the fit, which no resampling of its values shows: an interval takes
    fits anew, each on episodes drawn with replacement (Hao et al., 2021, "Bootstrapping fitted Q
    evaluation"), and is that of a normal distribution.
    """

    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        everything = np.arange(len(recorded))
        value = self._value(recorded, target, everything, rng)
        refits = [
            self._value(recorded, target, rng.integers(len(recorded), size=len(recorded)), rng)
            for _ in range(self.num_refits)
        ]
        interval = NO_INTERVAL
        if len(refits) > 1:
            half = float(ndtri((1 + self.confidence) / 2)) * float(np.std(refits, ddof=1))
            interval = Interval(value - half, value + half)
        return Estimate(value, interval if math.isfinite(value) else NO_INTERVAL)

    def _value(
        self,
        recorded: RecordedEpisodes,
        target: TargetPolicy,
        episodes: np.ndarray,
        rng: np.random.Generator,
    ) -> float:
        """Return the mean of V where episodes `[M]` begin, fitted on them."""
        q = self.fit(recorded, target, recorded.steps_of(episodes), rng)
        first = recorded.ids[recorded.first_steps[episodes]]
        return float(q.state_values(first).mean())
