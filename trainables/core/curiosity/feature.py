"""Which intrinsic reward a policy has, as its `exploration_config` says."""

from __future__ import annotations

from typing import Any

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.counts import Counts
from trainables.core.curiosity.icm import IntrinsicCuriosity
from trainables.core.curiosity.novelty import Novelty
from trainables.core.curiosity.part import IntrinsicReward
from trainables.core.curiosity.rnd import RandomDistillation
from trainables.core.learning.part import Parts
from trainables.core.policy.policy import Policy

PART = "curiosity"
"""The name of the part: its metrics are below `learner/<module>/curiosity/`."""


def intrinsic_rewards(config: Any, policy: Policy) -> Parts:
    """Return the part that rewards a policy for what is new; none if nothing asks for it.

    Args:
        config: Of the policy's module.
        policy: Of the process that learns.
    """
    resolved = config.resolve()
    settings = resolved.intrinsic
    if settings is None:
        return {}
    sequences = getattr(resolved, "sequences", None)
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
