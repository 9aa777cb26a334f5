"""Likelihoods of recorded actions, finite whatever was recorded and whatever the policy says."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainables.core.distributions.base import Distribution
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN, SquashedGaussian

_MAX_SQUASHED = math.atanh(0.999)
# Recorded actions lie on the bounds, where no finite mean of a squashed Gaussian can follow: its
# likelihood takes them for 0.999 of the way there. Q-functions see them as they are.


def log_likelihood(
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


def bounded_log_stds(inputs: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor, Tensor]:
    """Bound each log sigma among the inputs of a distribution, `[M, num_inputs]`.

    Returns:
        The inputs with bounded ones, and two scalars: by how much they were outside, the mean sum
        of a row, whose gradient leads back inside, where a bound has none; and their mean.
    """
    none = inputs.new_zeros(())
    if not len(distribution.log_std_inputs):
        return inputs, none, none
    places = torch.tensor(list(distribution.log_std_inputs), device=inputs.device)
    given = inputs[..., places]
    log_stds = given.clamp(LOG_STD_MIN, LOG_STD_MAX)
    bounded = inputs.index_copy(-1, places, log_stds)
    return bounded, (given - log_stds).abs().sum(-1).mean(), log_stds.mean()
