"""The interface of what tells of a policy from recorded episodes, without playing any."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from trainables.core.config.recorded.estimators import EstimatorSettings, EvaluatorSettings
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.intervals import Interval
from trainables.core.estimation.target_policy import TargetPolicy


@dataclass
class OfflineEvaluator(EvaluatorSettings):
    """Tells of a policy from recorded episodes: subclass it, and override `evaluate`.

    Its settings are what an entry of `off_policy_estimation_methods` has beside `type`; a subclass
    declares its own as fields with defaults.

    Attributes:
        needs_logp: Whether it looks at the behaviour policy's log-probabilities: where nobody noted
            them, they are estimated before.
    """

    needs_logp: ClassVar[bool] = False

    @abstractmethod
    def evaluate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> dict[str, float]:
        """Return metrics by name.

        Args:
            recorded: What another policy did.
            target: The policy to tell of.
            rng: For all that is drawn: equal at each evaluation, so that two of them differ by the
                policy alone.
        """
        raise NotImplementedError


class Estimate(NamedTuple):
    """What a policy is worth.

    Attributes:
        value: The expected discounted return of an episode.
        interval: In which it probably is.
        metrics: What else there is to tell.
    """

    value: float
    interval: Interval
    metrics: Mapping[str, float] = {}


@dataclass
class OffPolicyEstimator(EstimatorSettings, OfflineEvaluator):
    """Estimates what a policy is worth: subclass it, and override `estimate`."""

    @abstractmethod
    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        """Return what the target policy is worth; see `evaluate` for the arguments."""
        raise NotImplementedError

    def evaluate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> dict[str, float]:
        """Return the estimate, its interval, and how it compares with the behaviour policy.

        `v_gain` is the reference's, a ratio, and unknown (NaN) where the behaviour is worth nothing
        or less; `v_delta`, the difference, is always known.
        """
        if self.gamma is not None:
            recorded = replace(recorded, gamma=self.gamma)
        found = self.estimate(recorded, target, rng)
        behaviour = float(recorded.returns.mean())
        value = float(found.value) if math.isfinite(found.value) else math.nan
        return {
            "num_episodes": len(recorded),
            "v_behavior": behaviour,
            "v_target": value,
            "v_gain": value / behaviour if behaviour > 0 else math.nan,
            "v_delta": value - behaviour,
            "low": found.interval.low,
            "high": found.interval.high,
            **found.metrics,
        }
