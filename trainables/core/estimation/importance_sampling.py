"""Importance sampling: recorded returns, weighted by how likely the target policy makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trainables.core.config.recorded.estimators import ImportanceSamplingSettings
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.evaluator import Estimate, OffPolicyEstimator
from trainables.core.estimation.importance_weights import ImportanceWeights
from trainables.core.estimation.intervals import bootstrap_interval, interval_of_mean
from trainables.core.estimation.target_policy import TargetPolicy

ESS = "effective_sample_size"


@dataclass
class ImportanceSampling(ImportanceSamplingSettings, OffPolicyEstimator):
    """The mean over episodes of weighted rewards: unbiased, its variance grows with the horizon.

    Per decision (Precup et al., 2000) the reward of a step counts with the product of the ratios up
    to it, `mean_i sum_t gamma^t w[i, t] r[i, t]`; else with that of the whole episode.
    """

    needs_logp: ClassVar[bool] = True

    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        weights = ImportanceWeights.of(recorded, target.logp(recorded))
        of_rewards = weights.products if self.per_decision else weights.of_episodes[:, None]
        values = (of_rewards * discounted_rewards(recorded)).sum(axis=1)
        interval = interval_of_mean(values, rng, self.confidence, self.num_resamples)
        return Estimate(float(values.mean()), interval, {ESS: weights.effective_sample_size})


@dataclass
class WeightedImportanceSampling(ImportanceSampling):
    """The same with weights that sum to one: biased, but consistent, and of far less variance.

    Per decision each step's weights are divided by their mean over the episodes (Precup et al.,
    2000; Thomas, 2015, section 3.8). An episode that is over goes on without rewards.
    """

    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        weights = ImportanceWeights.of(recorded, target.logp(recorded))
        # What the products are divided by cancels: they may be too large to sum.
        of_rewards, rewards = weights.relative_products, discounted_rewards(recorded)
        if not self.per_decision:
            of_rewards, rewards = of_rewards[:, -1:], rewards.sum(axis=1, keepdims=True)
        weighted = of_rewards * rewards

        def value(counts: np.ndarray) -> np.ndarray:
            sums, totals = counts @ weighted, counts @ of_rewards
            # No episode that could be the target policy's: nothing is known of that step.
            with np.errstate(invalid="ignore", divide="ignore"):
                found: np.ndarray = (sums / totals).sum(axis=1)
            return found

        interval = bootstrap_interval(
            value, len(recorded), rng, self.confidence, self.num_resamples
        )
        estimate = float(value(np.ones((1, len(recorded))))[0])
        return Estimate(estimate, interval, {ESS: weights.effective_sample_size})


def discounted_rewards(recorded: RecordedEpisodes) -> np.ndarray:
    """Return `gamma^t r[t]` of each step by episode, `[E, H]`."""
    powers = np.power(float(recorded.gamma), np.arange(recorded.horizon))
    return recorded.padded(recorded.rewards) * powers
