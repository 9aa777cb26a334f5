"""Advantages of bonuses that have a value function of their own (Burda et al., 2018, section 2.3).

What an agent has seen does not become new again when an episode ends, so the returns of bonuses run
on over the ends of episodes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def endless_gae(
    bonuses: Tensor, values: Tensor, valid: Tensor, gamma: float, lambda_: float
) -> Tensor:
    """Return generalised advantage estimates over the ends of episodes, `[T, N]`; 0 where no step.

    After an episode's last step comes the first one of the next episode. Rows that only reset are
    passed over.

    Args:
        bonuses: `[T, N]`.
        values: Of all observations, `[T+1, N]`.
        valid: Which rows are steps, `[T, N]`, bool.
        gamma: Discount factor.
        lambda_: GAE's lambda.
    """
    advantages = torch.zeros_like(bonuses)
    advantage, next_value = torch.zeros_like(values[0]), values[-1]
    for t in range(len(bonuses) - 1, -1, -1):
        delta = bonuses[t] + gamma * next_value - values[t]
        here = delta + gamma * lambda_ * advantage
        advantage = torch.where(valid[t], here, advantage)
        next_value = torch.where(valid[t], values[t], next_value)
        advantages[t] = torch.where(valid[t], here, 0.0)
    return advantages
