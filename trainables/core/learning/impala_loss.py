"""The loss of IMPALA (Espeholt et al., 2018, arXiv 1802.01561) on whole fragments."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.learning.coefficients import Coefficient, is_off
from trainables.core.learning.fragments import unrolled_fragments
from trainables.core.learning.learner import Metrics, Reduction
from trainables.core.learning.returns import MAX_LOG_RHO, Estimation, moments
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule

MOMENTS = ("targets_mean", "targets_square", "residuals_mean", "residuals_square")
"""What `vf_explained_var` is made of, see `moments`; not reported."""


class IMPALACoefficients(NamedTuple):
    """The numbers in the loss of one update."""

    estimation: Estimation
    value: Coefficient
    entropy: Coefficient
    reduction: Reduction


def impala_loss(
    output: ModuleOutput,
    batch: Batch,
    distribution: Distribution,
    coefficients: IMPALACoefficients,
) -> tuple[Tensor, Metrics]:
    """Policy gradient, value loss and entropy bonus (section 4.2).

    Args:
        output: Of the module on the fragments: `dist_inputs [T+1, N, ...]`, `values [T+1, N]`.
        batch: actions, logp, rewards, terminated, continues, valid, `[T, N, ...]`.
        distribution: Of the actions.
        coefficients: How advantages are estimated, and weights.

    Returns:
        The scalar loss, and detached scalars to report: means over rows whatever the loss is.
    """
    shape = batch["valid"].shape
    rows = batch["valid"].flatten().nonzero().squeeze(1)

    def at_rows(column: Tensor) -> Tensor:
        return column.flatten(0, 1).index_select(0, rows)

    # Only of valid rows: of the others even an action's probability may be no number.
    dist_inputs, actions = at_rows(output.dist_inputs[:-1]), at_rows(batch["actions"])
    logp, entropy = distribution.logp_and_entropy(dist_inputs, actions)
    log_rhos = logp.detach() - at_rows(batch["logp"])
    by_row = log_rhos.new_zeros(shape.numel()).index_copy(0, rows, log_rhos).view(shape)
    estimates = coefficients.estimation(by_row, output.values, batch)
    targets, advantages = at_rows(estimates.targets), at_rows(estimates.advantages)
    values = at_rows(output.values[:-1])
    count = max(1, len(rows))  # a learner's part of a batch may have none

    policy_loss = -(logp * advantages).sum() / count
    value_loss = 0.5 * (values - targets).square().sum() / count
    mean_entropy = entropy.sum() / count
    loss = policy_loss + coefficients.value * value_loss
    if not is_off(coefficients.entropy):  # else no gradient flows through it
        loss = loss - coefficients.entropy * mean_entropy
    return loss * len(rows) if coefficients.reduction == "sum" else loss, {
        "total_loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "vf_loss": value_loss.detach(),
        "entropy": mean_entropy.detach(),
        "mean_rho": log_rhos.clamp_max(MAX_LOG_RHO).exp().sum() / count,
        # A variance of parts is no mean of theirs, but of all rows it follows from such means.
        **dict(zip(MOMENTS, (*moments(targets), *moments(targets - values.detach())), strict=True)),
    }


def fragments_loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: IMPALACoefficients,
) -> tuple[Tensor, Metrics]:
    """Return `impala_loss` of a module and a batch of `fragment_batch`."""
    return impala_loss(*unrolled_fragments(module, batch), distribution, coefficients)
