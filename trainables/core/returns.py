"""Return and advantage estimators: pure functions on time-major tensors `[T, ...]`."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    continues: Tensor,
    gamma: float,
    lambda_: float,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al., 2016, eq. 16).

    `delta[t] = r[t] + gamma * (1 - terminated[t]) * V(obs[t+1]) - V(obs[t])`
    `A[t] = delta[t] + gamma * lambda * continues[t] * A[t+1]`

    `terminated` and `continues` differ on purpose: a truncated step bootstraps from the value of
    its true successor, but the recursion does not run on into the next episode.

    Args:
        rewards: `[T, N]`.
        values: V(obs[t]), `[T, N]`.
        next_values: V(obs[t+1]), `[T, N]`: of the observation that the action led to.
        terminated: Whether the episode ended in a terminal state at t, `[T, N]`.
        continues: Whether row t+1 continues the episode of row t, `[T, N]`.
        gamma: Discount factor.
        lambda_: Weight of longer returns; 0 gives one-step, 1 Monte Carlo estimates.

    Returns:
        Advantages, `[T, N]`. Add `values` for the lambda-returns.

    Raises:
        ValueError: if the shapes differ.
    """
    check_same_shape(
        rewards=rewards,
        values=values,
        next_values=next_values,
        terminated=terminated,
        continues=continues,
    )
    deltas = rewards + (gamma * next_values).masked_fill(terminated, 0.0) - values
    decays = gamma * lambda_ * continues.to(rewards.dtype)
    return _discounted_sums(deltas, decays)


def discounted_returns(
    rewards: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    continues: Tensor,
    gamma: float,
) -> Tensor:
    """Discounted sums of rewards, bootstrapped where an episode is cut but not terminated.

    Args:
        rewards: `[T, N]`.
        next_values: What a cut row bootstraps from, `[T, N]`; zeros without a critic.
        terminated: `[T, N]`.
        continues: `[T, N]`.
        gamma: Discount factor.

    Returns:
        Returns, `[T, N]`.
    """
    check_same_shape(
        rewards=rewards, next_values=next_values, terminated=terminated, continues=continues
    )
    cut = ~(terminated | continues)
    bootstraps = (gamma * next_values).masked_fill(~cut, 0.0)
    return _discounted_sums(rewards + bootstraps, gamma * continues.to(rewards.dtype))


def _discounted_sums(terms: Tensor, decays: Tensor) -> Tensor:
    """`S[t] = terms[t] + decays[t] * S[t+1]`, computed backwards in time with `S[T] = 0`.

    The recursion runs in numpy on the CPU: T small steps there cost a tenth of what as many torch
    calls cost, and on a GPU they would be T kernel launches.
    """
    sums = terms.detach().cpu().numpy().copy()
    steps = decays.detach().cpu().numpy()
    for t in range(len(sums) - 2, -1, -1):
        sums[t] += steps[t] * sums[t + 1]
    return torch.from_numpy(sums).to(terms.device)


def explained_variance(predictions: Tensor, targets: Tensor) -> Tensor:
    """`1 - Var(targets - predictions) / Var(targets)`, a scalar in (-inf, 1]; 0 if flat."""
    variance = targets.var(correction=0)
    residual = (targets - predictions).var(correction=0)
    return torch.where(variance > 0, 1 - residual / variance, torch.zeros_like(variance))


def check_same_shape(**tensors: Tensor) -> None:
    """Raise `ValueError` naming the shapes unless all are equal."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"shapes differ: {shapes}")
