"""The loss of IMPALA (Espeholt et al., 2018, arXiv 1802.01561) on whole fragments."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.distributions.base import Distribution
from trainables.core.learning.coefficients import Coefficient, is_off
from trainables.core.learning.fragments import MaskedRows, SelectedRows, unrolled_fragments
from trainables.core.learning.learner import Metrics, Reduction
from trainables.core.learning.returns import MAX_LOG_RHO, Estimation, moments
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule

MOMENTS = ("targets_mean", "targets_square", "residuals_mean", "residuals_square")
"""What `vf_explained_var` is made of, see `moments`; not reported."""


class IMPALACoefficients(NamedTuple):
    """The numbers in the loss of one update.

    Attributes:
        estimation: How advantages are estimated.
        value: Weight of the value loss, half the squared error.
        entropy: Weight of the entropy bonus.
        reduction: Whether the loss is a mean over rows, or a sum.
        masked: Whether rows that are not valid are masked instead of left out. Shapes then depend
            on no data, as compilers like it and `vmap` needs it; sums are rounded otherwise.
    """

    estimation: Estimation
    value: Coefficient
    entropy: Coefficient
    reduction: Reduction
    masked: bool = False


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
    rows = MaskedRows(batch["valid"]) if coefficients.masked else SelectedRows(batch["valid"])
    # Only of valid rows: of the others even an action's probability may be no number.
    dist_inputs, actions = rows.take(output.dist_inputs[:-1]), rows.take(batch["actions"])
    logp, entropy = distribution.logp_and_entropy(dist_inputs, actions)
    log_rhos = logp.detach() - rows.take(batch["logp"])
    estimates = coefficients.estimation(rows.spread(log_rhos), output.values, batch)
    targets, advantages = rows.take(estimates.targets), rows.take(estimates.advantages)
    values = rows.take(output.values[:-1])
    count = rows.divisor

    policy_loss = -rows.sum(logp * advantages) / count
    value_loss = 0.5 * rows.sum((values - targets).square()) / count
    mean_entropy = rows.sum(entropy) / count
    loss = policy_loss + coefficients.value * value_loss
    if not is_off(coefficients.entropy):  # else no gradient flows through it
        loss = loss - coefficients.entropy * mean_entropy
    found = (*moments(targets, count), *moments(targets - values.detach(), count))
    return loss * rows.count if coefficients.reduction == "sum" else loss, {
        "total_loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "vf_loss": value_loss.detach(),
        "entropy": mean_entropy.detach(),
        "mean_rho": rows.sum(log_rhos.clamp_max(MAX_LOG_RHO).exp()) / count,
        # A variance of parts is no mean of theirs, but of all rows it follows from such means.
        **dict(zip(MOMENTS, found, strict=True)),
    }


def fragments_loss(
    module: PolicyValueModule,
    batch: Batch,
    distribution: Distribution,
    coefficients: IMPALACoefficients,
) -> tuple[Tensor, Metrics]:
    """Return `impala_loss` of a module and a batch of `fragment_batch`."""
    return impala_loss(*unrolled_fragments(module, batch), distribution, coefficients)
