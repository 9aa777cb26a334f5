"""The soft maximum of Q over all actions, `T log of the integral of exp(Q(s, a)/T)`.

Estimated from proposals where actions are continuous, as in appendix F of CQL (Kumar et al., 2020).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainables.core.distributions.gaussian import SquashedGaussian


def proposals(
    distribution: SquashedGaussian,
    inputs: Tensor,
    next_inputs: Tensor,
    uniform: Tensor,
    noise: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return actions that the integral over all actions is estimated by (appendix F).

    N are uniform, N from the policy in each state, and N from the policy in the next one. Densities
    are those of actions in (-1, 1)^d, as the Q-functions take them, whatever the environment's
    bounds: a uniform one has 1/2^d.

    Args:
        distribution: Of the actions.
        inputs: What the policy says of each state, `[B, 2 d]`.
        next_inputs: Of the next ones, `[B, 2 d]`.
        uniform: Uniform actions, `[B, N, d]`.
        noise: Standard normal noise, `[B, 2 N, d]`: first of the present states.

    Returns:
        Actions `[B, 3 N, d]`, and the logarithms of their densities, `[B, 3 N]`.
    """
    count, size = uniform.shape[1:]
    both = torch.stack([inputs, next_inputs], 1).repeat_interleave(count, 1)  # [B, 2 N, 2 d]
    drawn, logp = distribution.rsample(both, noise)
    of_uniform = logp.new_full(uniform.shape[:2], -size * math.log(2))
    return torch.cat([uniform, drawn], 1), torch.cat([of_uniform, logp], 1)


def log_integral(q_values: Tensor, log_densities: Tensor, temperature: float) -> Tensor:
    """Estimate `T log of the integral of exp(Q(s, a)/T) da` by importance sampling (appendix F).

    The mean of exp(Q/T) / density, not their sum: what `lagrangian_thresh` is compared with does
    not depend on how many actions there are. And Q alone is divided by T, not the density.

    Args:
        q_values: Of M actions in each state, `[…, B, M]`.
        log_densities: Of these actions where they were drawn, `[B, M]`.
        temperature: T.

    Returns:
        `[…, B]`.
    """
    count = q_values.shape[-1]
    logs = (q_values / temperature - log_densities).logsumexp(-1) - math.log(count)
    return temperature * logs


def log_sum(q_values: Tensor, temperature: float) -> Tensor:
    """Return `T log of the sum of exp(Q(s, a)/T)` over discrete actions, `[…, B]`.

    Args:
        q_values: `[…, B, A]`; -inf of an action that is not allowed.
        temperature: T.
    """
    return temperature * (q_values / temperature).logsumexp(-1)
