"""Standard deviations that likelihoods of recorded actions may have."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.core.distributions.base import Distribution
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN


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
