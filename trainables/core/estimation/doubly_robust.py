"""Doubly robust estimation: a Q-function, corrected by what recorded rewards say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from trainables.core.config.recorded.estimators import DoublyRobustSettings
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes, backward_sums
from trainables.core.estimation.evaluator import Estimate
from trainables.core.estimation.importance_sampling import ESS
from trainables.core.estimation.importance_weights import ImportanceWeights
from trainables.core.estimation.intervals import interval_of_mean
from trainables.core.estimation.q_estimation import ModelBasedEstimator
from trainables.core.estimation.target_policy import TargetPolicy


class Values(Protocol):
    """Values of rows of data, as a `QFunction` has them."""

    def q_values(self, ids: np.ndarray) -> np.ndarray:
        """Return Q of what was done in rows `[M]`, `[M]`."""
        ...

    def state_values(self, ids: np.ndarray) -> np.ndarray:
        """Return V of rows `[M]`, `[M]`."""
        ...


@dataclass
class DoublyRobust(DoublyRobustSettings, ModelBasedEstimator):
    """`x[t] = V(s[t]) + rho[t] (r[t] + gamma x[t+1] - Q(s[t], a[t]))` (Jiang and Li, 2016, eq. 10).

    Unbiased whatever Q says, and of less variance the better it is. For that no episode may have
    helped to fit the Q-function that it is valued by: it is fitted k times, each time on all folds
    but one. Where an episode was cut, V of the last observation stands for the rest.
    """

    needs_logp: ClassVar[bool] = True

    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        if len(recorded) < self.k:
            raise ConfigError(
                f"off_policy_estimation_methods: k = {self.k} folds need as many episodes, and "
                f"{recorded.name} has {len(recorded)}; allowed: k from 2 to {len(recorded)}"
            )
        weights = ImportanceWeights.of(recorded, target.logp(recorded))
        values = np.empty(len(recorded))
        for fold in np.array_split(rng.permutation(len(recorded)), self.k):
            others = np.setdiff1d(np.arange(len(recorded)), fold)
            q = self.fit(recorded, target, recorded.steps_of(others), rng)
            values[fold] = doubly_robust_values(recorded.part(fold), weights.ratios[fold], q)
        interval = interval_of_mean(values, rng, self.confidence, self.num_resamples)
        return Estimate(float(values.mean()), interval, {ESS: weights.effective_sample_size})


def doubly_robust_values(recorded: RecordedEpisodes, ratios: np.ndarray, q: Values) -> np.ndarray:
    """Return the corrected value of each episode's start, `[E]`.

    Args:
        recorded: The episodes.
        ratios: Of their steps, `[E, H]` at least.
        q: Values of rows, that none of these episodes was used for.
    """
    ids, last = recorded.ids, recorded.last_steps
    of_steps = np.arange(recorded.horizon) < recorded.lengths[:, None]
    rho = ratios[:, : recorded.horizon][of_steps]
    values, actions = q.state_values(ids), q.q_values(ids)
    # x = (V + rho (r - Q)) + rho gamma x'
    terms = values + rho * (recorded.rewards - actions)
    factors = rho * recorded.gamma * ~recorded.terminated
    after_end = q.state_values(ids[last] + 1)
    sums = backward_sums(recorded, terms, factors, after_end)
    return sums[recorded.first_steps]
