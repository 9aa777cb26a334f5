"""Feature importance: how much actions change where one feature is another episode's."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch

from trainables.core.config.recorded.estimators import FeatureImportanceSettings
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.evaluator import OfflineEvaluator
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.core.policy.behaviour import is_discrete

_ROWS_AT_ONCE = 4096
_MOST_FEATURES = 1000


@dataclass
class FeatureImportance(FeatureImportanceSettings, OfflineEvaluator):
    """Permutation importance (Breiman, 2001; Fisher et al., 2019) of each number of an observation.

    A feature's numbers are shuffled over the recorded steps. Reported is the mean distance between
    the most likely actions with and without: the share of steps whose action changes where actions
    are discrete, else the mean absolute difference, on the scale of [-1, 1] where they have bounds.
    """

    def evaluate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> dict[str, float]:
        policy, space = target.policy, target.policy.observation_space
        size = int(np.prod(space.shape)) if isinstance(space, gym.spaces.Box) else 0
        plain = policy.observations.layout.is_plain and policy.observations.frames is None
        if not 0 < size <= _MOST_FEATURES or not plain or policy.is_recurrent:
            raise ConfigError(
                "off_policy_estimation_methods: the type 'FeatureImportance' needs observations "
                f"of one Box of at most {_MOST_FEATURES} numbers and a policy without memory or "
                f"stacked frames; this one sees {space}"
            )
        count = max(1, round(self.limit_fraction * len(recorded.ids)))
        ids = rng.choice(recorded.ids, count, replace=False)
        rows = target.rows.observations(ids)
        before = _greedy(target, rows)
        found = np.zeros(size)
        for feature in range(size):
            for _ in range(self.repeat):
                shuffled = rows.reshape(count, size).copy()
                shuffled[:, feature] = rng.permutation(shuffled[:, feature])
                after = _greedy(target, shuffled.reshape(rows.shape))
                found[feature] += _distance(before, after, target) / self.repeat
        return {f"feature_{number}": float(value) for number, value in enumerate(found)}


@torch.no_grad()
def _greedy(target: TargetPolicy, rows: np.ndarray) -> torch.Tensor:
    """Return the most likely actions of observations `[M, …]`, as networks see them, `[M, d]`."""
    policy, found = target.policy, []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        features = policy.features(rows[start : start + _ROWS_AT_ONCE])
        modes = policy.distribution.mode(policy.module.dist_inputs(features))
        found.append(policy.distribution.encode(modes))
    return torch.cat(found)


def _distance(before: torch.Tensor, after: torch.Tensor, target: TargetPolicy) -> float:
    """Return how far actions `[M, d]` are from each other, on average."""
    if is_discrete(target.distribution):
        return float((before != after).any(-1).double().mean())
    return float((before - after).abs().double().mean())
