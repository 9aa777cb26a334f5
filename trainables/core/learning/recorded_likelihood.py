"""The likelihood of actions that somebody else took."""

from __future__ import annotations

import math

from torch import Tensor

from trainables.core.distributions.base import Distribution
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.learning.bounded_log_stds import bounded_log_stds

_MAX_SQUASHED = math.atanh(0.999)
# Recorded actions lie on the bounds, where no finite mean of a squashed Gaussian can follow: its
# likelihood takes them for 0.999 of the way there. Q-functions see them as they are.


def recorded_likelihood(
    inputs: Tensor, actions: Tensor, distribution: Distribution
) -> tuple[Tensor, Tensor]:
    """Return log pi(a|s) of recorded actions, `[B]`, finite also of those on a bound.

    Args:
        inputs: Of the distribution, `[B, num_inputs]`.
        actions: As they are stored: continuous ones before tanh, `[B, …]`.
        distribution: Of the actions.

    Returns:
        The log-probabilities, and a scalar whose gradient leads log sigmas back inside their
        bounds, where the likelihood has none.
    """
    inputs, excess, _ = bounded_log_stds(inputs, distribution)
    if isinstance(distribution, SquashedGaussian):
        actions = actions.clamp(-_MAX_SQUASHED, _MAX_SQUASHED)
    return distribution.logp(inputs, actions), excess
