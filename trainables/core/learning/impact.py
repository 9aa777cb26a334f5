"""IMPACT's mathematics (Luo et al., 2019, arXiv 1912.00167): what a batch is, and its loss."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.core.data.batch import HOST, Batch, Rollout, tree_columns
from trainables.core.data.features import map_tensors
from trainables.core.distributions.base import Distribution
from trainables.core.learning.coefficients import Coefficient, clipped, is_off, log
from trainables.core.learning.fragments import (
    fragment_batch,
    states_of,
    time_major_features,
    time_major_rows,
    unrolled_fragments,
)
from trainables.core.learning.learner import Metrics
from trainables.core.learning.minibatches import sequence_batch, unrolled
from trainables.core.learning.returns import MAX_LOG_RHO, Estimation
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule, with_values
from trainables.core.policy.policy import Policy


class APPOCoefficients(NamedTuple):
    """The numbers in the loss of one update.

    Attributes:
        clip: epsilon.
        target_worker_clipping: rho.
        value: Weight of the value loss, half the squared error.
        entropy: Weight of the entropy bonus.
        kl: Weight of the KL penalty.
    """

    clip: Coefficient
    target_worker_clipping: Coefficient
    value: Coefficient
    entropy: Coefficient
    kl: Coefficient


@torch.no_grad()
def impact_batch(
    rollout: Rollout, policy: Policy, target: PolicyValueModule, estimation: Estimation
) -> Batch:
    """Return the rows of a rollout that are trained on, with what the target network says of them.

    V-trace corrects for the way from the policy that sampled to the target's (section 3.1).

    Args:
        rollout: `[T, N]`.
        policy: The policy that learns.
        target: Its target network.
        estimation: How value targets and advantages are estimated.

    Returns:
        Columns `[B, …]` in host memory, B the number of valid rows: features, actions, logp,
        target_logp, target_inputs, advantages, values, value_targets. Of a policy with a memory
        whole fragments, see `sequence_batch`.
    """
    fragments = {n: c.to(policy.device) for n, c in fragment_batch(rollout, policy).items()}
    rows = time_major_rows(fragments)
    values, target_inputs = (
        _values(with_values(policy.module), fragments),
        _dist_inputs(target, fragments),
    )
    valid = rows["valid"]
    target_logp = policy.distribution.logp(target_inputs, rows["actions"])
    # Of rows that are not valid even an action's probability may be no number.
    log_rhos = torch.where(valid, target_logp - rows["logp"], torch.zeros_like(target_logp))
    estimates = estimation(log_rhos, values, rows)
    columns = {
        "actions": rows["actions"],
        "logp": rows["logp"],
        "target_logp": target_logp,
        "target_inputs": target_inputs,
        "advantages": estimates.advantages,
        "values": values[:-1],
        "value_targets": estimates.targets,
    }
    features = map_tensors(lambda part: part[:-1], time_major_features(fragments))
    if policy.is_recurrent:
        states = {name: part.unsqueeze(0) for name, part in states_of(fragments).items()}
        order = {"valid": valid, "is_first": rows["is_first"][:-1]}
        sequences = sequence_batch(columns | order, features, states, len(valid))
        return {name: column.to(HOST) for name, column in sequences.items()}
    columns |= tree_columns("features", features)
    # Slot by slot, so that the rows of several learners follow each other as those of one.
    kept = valid.T.flatten().nonzero().squeeze(1)
    return {
        name: column.transpose(0, 1).flatten(0, 1).index_select(0, kept).to(HOST)
        for name, column in columns.items()
    }


def _values(module: PolicyValueModule, fragments: Batch) -> Tensor:
    """V of all rows and of the last successors, `[T+1, N]`."""
    if module.is_recurrent:
        return unrolled_fragments(module, fragments)[0].values
    return module.value(time_major_features(fragments))


def _dist_inputs(module: PolicyValueModule, fragments: Batch) -> Tensor:
    """Return what a module says of the actions of all rows, `[T, N, …]`."""
    if module.is_recurrent:
        return unrolled_fragments(module, fragments)[0].dist_inputs[:-1]
    return module.dist_inputs(map_tensors(lambda part: part[:-1], time_major_features(fragments)))


def appo_loss(
    output: ModuleOutput,
    batch: Batch,
    distribution: Distribution,
    coefficients: APPOCoefficients,
) -> tuple[Tensor, Metrics]:
    """Clipped surrogate with IMPACT's ratio + value loss - entropy bonus (+ KL penalty).

    Args:
        output: Of the module on the minibatch: `dist_inputs [B, …]`, `values [B]`.
        batch: actions, logp, target_logp, target_inputs, advantages, value_targets, `[B, …]`.
        distribution: Of the actions.
        coefficients: Clip ranges and weights.

    Returns:
        The scalar loss, and detached scalars to report.
    """
    logp, entropy = distribution.logp_and_entropy(output.dist_inputs, batch["actions"])
    bound = coefficients.target_worker_clipping
    ratio = surrogate_ratio(logp, batch["logp"], batch["target_logp"], bound)
    bounded = clipped(ratio, coefficients.clip)
    advantages = batch["advantages"]
    policy_loss = -torch.minimum(ratio * advantages, bounded * advantages).mean()
    value_loss = 0.5 * (output.values - batch["value_targets"]).square().mean()
    mean_entropy = entropy.mean()
    has_kl = not is_off(coefficients.kl)
    with nullcontext() if has_kl else torch.no_grad():
        mean_kl = distribution.kl(batch["target_inputs"], output.dist_inputs).mean()
    loss = policy_loss + coefficients.value * value_loss
    if not is_off(coefficients.entropy):  # else no gradient flows through it
        loss = loss - coefficients.entropy * mean_entropy
    if has_kl:
        loss = loss + coefficients.kl * mean_kl
    log_rhos = (batch["target_logp"] - batch["logp"]).clamp_max(MAX_LOG_RHO)
    return loss, {
        "total_loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "vf_loss": value_loss.detach(),
        "entropy": mean_entropy.detach(),
        "mean_kl": mean_kl.detach(),
        "mean_rho": log_rhos.exp().mean(),
        "clip_fraction": (bounded != ratio).float().mean(),
    }


def minibatch_loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: APPOCoefficients,
) -> tuple[Tensor, Metrics]:
    """Return `appo_loss` of a module and a minibatch of `impact_batch`."""
    return appo_loss(*unrolled(module, batch), distribution, coefficients)


def surrogate_ratio(
    logp: Tensor, worker_logp: Tensor, target_logp: Tensor, bound: Coefficient
) -> Tensor:
    """Return `min(pi_worker / pi_target, rho) * pi / pi_worker` of section 3.1, `[B]`.

    That is pi / pi_target unless the policy that sampled found the action much more likely than
    the target network does, i.e. by more than the factor `bound`, rho.
    """
    correction = (worker_logp - target_logp).clamp_max(log(bound))
    return (correction + logp - worker_logp).exp()
