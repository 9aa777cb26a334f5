"""Intrinsic rewards as a feature: the part that an `exploration_config` adds to a learner."""

from __future__ import annotations

from typing import Any

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.counts import Counts
from trainables.core.curiosity.icm import IntrinsicCuriosity
from trainables.core.curiosity.novelty import Novelty
from trainables.core.curiosity.part import IntrinsicReward
from trainables.core.curiosity.rnd import RandomDistillation
from trainables.core.features import Feature
from trainables.core.learning.part import Parts
from trainables.core.policy.policy import Policy

PART = "curiosity"
"""The name of the part: its metrics are below `learner/<module>/curiosity/`."""


class Curiosity(Feature):
    """Rewards a policy for what is new to it."""

    def learner_parts(self, config: Any, policy: Policy) -> Parts:
        """Return the part that adds the bonus of `exploration_config` to a policy's rewards."""
        resolved = config.resolve()
        settings, sequences = resolved.intrinsic, getattr(resolved, "sequences", None)
        part = IntrinsicReward(
            policy,
            _novelty(settings, policy),
            settings,
            lambda_=getattr(config, "lambda_", 1.0) if getattr(config, "use_gae", False) else 1.0,
            burn_in=0 if sequences is None else sequences.burn_in,
        )
        return {PART: part}


def _novelty(settings: ExplorationConfig, policy: Policy) -> Novelty:
    spec = policy.observations.preprocessor.spec
    if settings.type == "Curiosity":
        return IntrinsicCuriosity(spec, policy.distribution, settings)
    if settings.type == "RND":
        return RandomDistillation(spec, settings)
    return Counts(spec, settings)


FEATURE = Curiosity()
