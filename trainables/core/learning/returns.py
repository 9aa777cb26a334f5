"""Return and advantage estimators: pure functions on time-major tensors `[T, ...]`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.learning.coefficients import Coefficient

_C_BAR = 1.0  # bound of the traces: the paper's
MAX_LOG_RHO = 20.0
"""Bound of the log rho that is reported: a greater ratio would make the mean infinite."""


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    continues: Tensor,
    gamma: Coefficient,
    lambda_: Coefficient,
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


def lambda_return(
    rewards: Tensor,
    next_values: Tensor,
    discounts: Tensor,
    continues: Tensor,
    lambda_: Coefficient,
) -> Tensor:
    """Lambda-returns (Sutton and Barto, 2018, ch. 12; DreamerV2, Hafner et al., 2021, eq. 4).

    `G[t] = r[t] + discounts[t] * ((1 - lambda) * V(obs[t+1]) + lambda * G[t+1])`

    Where `continues` is false, and in the last row, V(obs[t+1]) takes the bracket's place. With
    `discounts = gamma * (1 - terminated)` it is what `gae` gives, with the values added. Gradients
    flow to rewards, values and discounts, which a world model may have predicted.

    Args:
        rewards: `[T, N]`.
        next_values: V(obs[t+1]), `[T, N]`: of the observation that the action led to.
        discounts: gamma times the probability that no terminal state was reached at t, `[T, N]`.
        continues: Whether row t+1 continues the episode of row t, `[T, N]`.
        lambda_: Weight of longer returns; 0 gives one-step, 1 Monte Carlo returns.

    Raises:
        ValueError: if the shapes differ.
    """
    check_same_shape(
        rewards=rewards, next_values=next_values, discounts=discounts, continues=continues
    )
    runs_on = torch.cat([continues[:-1], torch.zeros_like(continues[-1:])])
    weights = lambda_ * runs_on.to(rewards.dtype)
    terms = rewards + discounts * (1 - weights) * next_values
    decays = discounts * weights
    if not (torch.is_grad_enabled() and (terms.requires_grad or decays.requires_grad)):
        return _discounted_sums(terms, decays)
    returns = [terms[-1]]
    for t in range(len(terms) - 2, -1, -1):
        returns.append(terms[t] + decays[t] * returns[-1])
    return torch.stack(returns[::-1])


class VTrace(NamedTuple):
    """What V-trace makes of a rollout, `[T, N]` each, without gradients.

    Attributes:
        targets: v_t, what the value function is to predict.
        advantages: What the gradient of log pi is weighted by, rho included.
    """

    targets: Tensor
    advantages: Tensor


@torch.no_grad()
def vtrace(
    log_rhos: Tensor,
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    continues: Tensor,
    gamma: Coefficient,
    lambda_: Coefficient = 1.0,
    rho_bar: Coefficient | None = 1.0,
    c_bar: Coefficient | None = 1.0,
    pg_rho_bar: Coefficient | None = 1.0,
) -> VTrace:
    """V-trace targets and advantages (Espeholt et al., 2018, arXiv 1802.01561, eq. 1, section 4.2).

    `delta[t] = r[t] + gamma * (1 - terminated[t]) * V(obs[t+1]) - V(obs[t])`
    `w[t] = v[t] - V(obs[t])
          = min(rho_bar, rho[t]) * delta[t]
          + gamma * lambda * min(c_bar, rho[t]) * continues[t] * w[t+1]`
    `A[t] = min(pg_rho_bar, rho[t]) * (delta[t] + gamma * lambda * continues[t] * w[t+1])`

    With lambda = 1 the bracket of A is the paper's `r[t] + gamma * v[t+1] - V(obs[t])`; with less,
    on-policy, it is what `gae` gives. Where `continues` is false v[t+1] is V(obs[t+1]), the true
    successor's, or 0 after a terminal state.

    Args:
        log_rhos: log of rho, pi(a|obs) of the policy that learns over that of the one that acted,
            `[T, N]`.
        rewards: `[T, N]`.
        values: V(obs[t]), `[T, N]`.
        next_values: V(obs[t+1]), `[T, N]`: of the observation that the action led to.
        terminated: Whether the episode ended in a terminal state at t, `[T, N]`.
        continues: Whether row t+1 continues the episode of row t, `[T, N]`.
        gamma: Discount factor.
        lambda_: Weight of longer returns (remark 2): 0 gives one-step targets.
        rho_bar: Bound of rho in delta: it decides what V converges to. None: unbounded.
        c_bar: Bound of rho as trace: it decides how fast. None: unbounded.
        pg_rho_bar: Bound of rho in the advantages. None: unbounded.

    Raises:
        ValueError: if the shapes differ.
    """
    check_same_shape(
        log_rhos=log_rhos,
        rewards=rewards,
        values=values,
        next_values=next_values,
        terminated=terminated,
        continues=continues,
    )
    rhos = log_rhos.exp()
    td_errors = rewards + (gamma * next_values).masked_fill(terminated, 0.0) - values
    decays = gamma * lambda_ * continues.to(rewards.dtype)
    corrections = _discounted_sums(
        _at_most(rho_bar, rhos) * td_errors, _at_most(c_bar, rhos) * decays
    )
    later = torch.cat([corrections[1:], torch.zeros_like(corrections[:1])])
    advantages = _at_most(pg_rho_bar, rhos) * (td_errors + decays * later)
    return VTrace(values + corrections, advantages)


class Estimation(NamedTuple):
    """How value targets and advantages are estimated for a policy that may not have sampled.

    Attributes:
        gamma: Discount factor.
        lambda_: Of V-trace, or of generalised advantage estimation.
        vtrace: Correct for the policy that sampled, by V-trace; False: take the rows as on-policy.
        rho_bar: Bound of rho in the value targets; None: unbounded.
        pg_rho_bar: Bound of rho in the policy gradient; None: unbounded.
    """

    gamma: Coefficient
    lambda_: Coefficient
    vtrace: bool
    rho_bar: Coefficient | None
    pg_rho_bar: Coefficient | None

    def __call__(self, log_rhos: Tensor, values: Tensor, rows: Batch) -> VTrace:
        """Return value targets and advantages `[T, N]`, without gradients.

        Args:
            log_rhos: log pi(a|s) - log mu(a|s), mu the policy that sampled, `[T, N]`.
            values: Of the rows and of the last successors, `[T+1, N]`.
            rows: rewards, terminated and continues, `[T, N]`.
        """
        values = values.detach()
        given = (rows["rewards"], values[:-1], values[1:], rows["terminated"], rows["continues"])
        if self.vtrace:
            bounds = (self.rho_bar, _C_BAR, self.pg_rho_bar)
            return vtrace(log_rhos, *given, self.gamma, self.lambda_, *bounds)
        advantages = gae(*given, self.gamma, self.lambda_)
        return VTrace(values[:-1] + advantages, advantages)


def _at_most(bound: Coefficient | None, rhos: Tensor) -> Tensor:
    return rhos if bound is None else rhos.clamp_max(bound)


def discounted_returns(
    rewards: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    continues: Tensor,
    gamma: Coefficient,
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
    """Compute `S[t] = terms[t] + decays[t] * S[t+1]` backwards in time with `S[T] = 0`.

    Without gradients. Members that `vmap` lifts it over are further columns.
    """
    sums: Tensor = _DiscountedSums.apply(terms.detach(), decays.detach())
    return sums


class _DiscountedSums(torch.autograd.Function):
    """The recursion in numpy on the CPU.

    T small steps there cost a tenth of what as many torch calls cost, and on a GPU they would be T
    kernel launches. `vmap` cannot see into it, and is told.
    """

    @staticmethod
    def forward(terms: Tensor, decays: Tensor) -> Tensor:
        sums = terms.cpu().numpy().copy()
        steps = decays.cpu().numpy()
        for t in range(len(sums) - 2, -1, -1):
            sums[t] += steps[t] * sums[t + 1]
        return torch.from_numpy(sums).to(terms.device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], terms: Tensor, decays: Tensor
    ) -> tuple[Tensor, int]:
        """Return the sums of all members, whose axis is the last one."""
        size = info.batch_size
        columns = [
            part.unsqueeze(-1).expand(*part.shape, size) if dim is None else part.movedim(dim, -1)
            for part, dim in zip((terms, decays), in_dims, strict=True)
        ]
        return _DiscountedSums.apply(*columns), terms.dim() - (in_dims[0] is not None)


def explained_variance(predictions: Tensor, targets: Tensor) -> Tensor:
    """Return `1 - Var(targets - predictions) / Var(targets)`, in (-inf, 1]; 0 if flat or none."""
    if not len(targets):
        return targets.new_zeros(())
    variance = targets.var(correction=0)
    residual = (targets - predictions).var(correction=0)
    return torch.where(variance > 0, 1 - residual / variance, torch.zeros_like(variance))


def moments(rows: Tensor, count: int | Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return means of rows `[M]` and of their squares, float64 scalars; 0 of none.

    Args:
        rows: The rows.
        count: How many they are, at least 1, if others are there as zeros.
    """
    count = max(1, len(rows)) if count is None else count
    rows = rows.double()  # a variance is a small difference of the two
    return rows.sum() / count, rows.square().sum() / count


def explained_by_moments(
    mean: float, square: float, residual_mean: float, residual_square: float
) -> float:
    """Return `explained_variance` from the `moments` of targets and of their residuals."""
    variance = square - mean**2
    if variance <= 1e-12 * square:  # rounding
        return 0.0
    return 1 - (residual_square - residual_mean**2) / variance


def standard_deviation(rows: Tensor) -> float:
    """Return the sample standard deviation of rows `[M]`; 0 of fewer than two."""
    return rows.std().item() if len(rows) > 1 else 0.0


def root_mean_square(rows: Tensor) -> float:
    """Return `sqrt(mean(x^2))` of rows `[M]`; 0 of none. In float64: squares are large."""
    return rows.double().square().mean().sqrt().item() if len(rows) else 0.0


def check_same_shape(**tensors: Tensor) -> None:
    """Raise `ValueError` naming the shapes unless all are equal."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) != 1:
        raise ValueError(f"shapes differ: {shapes}")
