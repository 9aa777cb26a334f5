"""What evaluations estimate from recorded episodes, beside or instead of playing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.estimation.behaviour_cloning import with_estimated_logp
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.evaluator import OfflineEvaluator
from trainables.core.estimation.importance_sampling import ESS
from trainables.core.estimation.importance_weights import warn_of_overlap
from trainables.core.estimation.methods import make_evaluator
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.core.features import Feature
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.recorded_episodes import load_recorded_episodes

PREFIX = "ope/"
_STREAM = 1 << 21  # apart from the numbers of an evaluation's parts and rounds


class OfflineEstimates:
    """The estimators of an algorithm, and the data that they look at: read when they first do.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id: one.
    """

    def __init__(self, config: AlgorithmConfig, policies: Mapping[str, Policy]):
        self._config, self._policies = config, policies
        self._evaluators: dict[str, OfflineEvaluator] = {
            name: make_evaluator(name, given)
            for name, given in config.off_policy_estimation_methods.items()
        }
        self._recorded: RecordedEpisodes | None = None
        self._warned: set[str] = set()

    def metrics(self, config: AlgorithmConfig, seed: np.random.SeedSequence) -> dict[str, float]:
        """Return what the estimators say of the present policy, as `ope/<name>/<metric>`.

        Args:
            config: The algorithm's config as it is now: a scheduler may have changed `gamma`.
            seed: The root of an evaluation's streams: equal each time, so that two evaluations
                differ by the policy alone.
        """
        policy = next(iter(self._policies.values()))
        recorded = replace(self._episodes(policy), gamma=config.gamma)
        explore = bool(config.get_evaluation_config_object().explore)
        target = TargetPolicy(policy, explore, recorded.rows)
        found: dict[str, float] = {}
        for number, (name, evaluator) in enumerate(self._evaluators.items()):
            own = evaluator.evaluate(recorded, target, _stream(seed, number))
            is_new = ESS in own and name not in self._warned
            if is_new and warn_of_overlap(name, own[ESS], len(recorded)):
                self._warned.add(name)
            found |= {f"{PREFIX}{name}/{metric}": float(v) for metric, v in own.items()}
        return found

    def _episodes(self, policy: Policy) -> RecordedEpisodes:
        if self._recorded is None:
            recorded = load_recorded_episodes(self._config, policy)
            if any(evaluator.needs_logp for evaluator in self._evaluators.values()):
                recorded = with_estimated_logp(recorded, policy)
            self._recorded = recorded
        return self._recorded


def _stream(root: np.random.SeedSequence, number: int) -> np.random.Generator:
    key = (*root.spawn_key, _STREAM, number)
    return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))


class Estimates(Feature):
    """Estimates from recorded episodes what a policy would do."""

    of_algorithm = OfflineEstimates


FEATURE = Estimates()
