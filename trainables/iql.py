"""Implicit Q-learning: values of what data hold, and no others (Kostrikov et al., 2021)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import Features
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.recorded_actions import log_likelihood
from trainables.core.networks.implicit_q import ImplicitQ
from trainables.core.networks.modules import PolicyModule
from trainables.core.networks.soft_actor_critic import QFunctions, chosen
from trainables.core.reported_metrics import learned, of_groups
from trainables.off_policy import Q_MAX, Q_MEAN, OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.iql import IQLConfig as IQLConfig

MAX_WEIGHT = 100.0
"""Of a row in the policy's loss; of a few rows with more a batch would say nothing else."""


class IQL(OffPolicy):
    """Learn what the best of the data's actions are worth, and imitate those that are worth more.

    No value of an action is asked for that the data do not hold.
    """

    config_class = IQLConfig
    config: IQLConfig
    reported_metrics = (
        learned(
            "vf_loss",
            "",
            "mean of |`expectile` - 1(A < 0)| A², A = min Q'(s, a) - V(s), Q' the target networks "
            "(Kostrikov et al., 2021, eq. 5)",
        ),
        learned(
            "qf_loss",
            "",
            "sum over the Q-functions of the mean of (r + gamma V(s') - Q(s, a))² (eq. 6)",
        ),
        learned("policy_loss", "nats", "-mean w log pi(a|s), w the weights of rows (eq. 7)"),
        learned("mean_weight", "", "mean of w = min(exp(`beta` A), 100)"),
        learned(
            "capped_weights",
            "",
            "share of rows with w = 100; if it is not small, `beta` is too large for the scale of "
            "the rewards",
        ),
        learned("v_mean", "discounted return", "mean V(s) of replayed steps"),
        Q_MEAN,
        Q_MAX,
        learned(
            "td_error_mean", "discounted return", "mean of |Q(s, a) - y| over both Q-functions"
        ),
        *of_groups(actor="the policy's", critic="the Q-functions'", value="the value function's"),
        *OffPolicy.reported_metrics,
    )

    def learning_rates(self, module_id: str | None = None) -> dict[str, float]:
        """Return the present rates of policy, Q-functions and value function."""
        config = self.config if module_id is None else self.config_of(module_id)
        rates = {"actor": config.actor_lr, "critic": config.critic_lr, "value": config.value_lr}
        return {n: self.scheduled(config.lr if r is None else r) for n, r in rates.items()}

    def module_options(self, module_id: str | None = None) -> dict[str, Any]:
        config = self.config if module_id is None else self.config_of(module_id)
        return {"type": "implicit_q", **config.networks}

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        assert isinstance(module, ImplicitQ)
        return {
            "groups": {
                "actor": module.actor.parameters(),
                "critic": module.critic.parameters(),
                "value": module.state_value.parameters(),
            },
            "targets": {"critic": module.critic},
        }

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        config = worker.config_of(module_id)
        target: Any = worker.learners[module_id].targets["critic"].network
        return partial(
            iql_loss,
            target=target,
            distribution=worker.policies[module_id].distribution,
            coefficients=IQLCoefficients(config.expectile, config.beta),
        )


class IQLCoefficients(NamedTuple):
    """The numbers in the losses."""

    expectile: float
    beta: float


def iql_loss(
    module: ImplicitQ,
    batch: Batch,
    target: QFunctions,
    distribution: Distribution,
    coefficients: IQLCoefficients,
) -> tuple[Tensor, Metrics]:
    """Return L_V (eq. 5) + L_Q (eq. 6) + L_pi (eq. 7).

    The three have no parameter in common that more than one of them gives a gradient to, so that
    one backward pass and one optimiser step do for all. All are of the networks before that step.

    Args:
        module: Is trained.
        batch: features, actions (continuous ones before tanh), rewards (n-step sums), discounts
            (gamma^n, 0 after a terminal state), next_features, weights (importance), `[B, …]`.
        target: Slow copy of the Q-functions.
        distribution: Of the actions.
        coefficients: Which expectile V is, and the inverse temperature beta.

    Returns:
        The scalar loss, and detached scalars to report with the rows' `priorities` `[B]`.
    """
    features, actions, importance = tree_of(batch, "features"), batch["actions"], batch["weights"]
    with torch.no_grad():
        target_q = q_of_actions(target, features, actions, distribution).amin(0)
        next_values = module.value(tree_of(batch, "next_features"))
        targets = batch["rewards"] + batch["discounts"] * next_values
    values = module.value(features)
    value_loss = (importance * expectile_losses(target_q - values, coefficients.expectile)).mean()

    q_values = q_of_actions(module.critic, features, actions, distribution)  # [E, B]
    errors = q_values - targets
    critic_loss = (importance * errors.square()).mean(-1).sum()

    weights = advantage_weights((target_q - values).detach(), coefficients.beta)
    inputs = module.dist_inputs(features)
    logp, excess = log_likelihood(inputs, actions, distribution)
    policy_loss = -(importance * weights * logp).mean()

    priorities, q_values = errors.detach().abs().mean(0), q_values.detach()
    return value_loss + critic_loss + policy_loss + excess, {
        "vf_loss": value_loss.detach(),
        "qf_loss": critic_loss.detach(),
        "policy_loss": policy_loss.detach(),
        "mean_weight": weights.mean(),
        "capped_weights": (weights >= MAX_WEIGHT).to(weights.dtype).mean(),
        "v_mean": values.detach().mean(),
        "q_mean": q_values.mean(),
        "q_max": q_values.amax(),
        "td_error_mean": priorities.mean(),
        "priorities": priorities,
    }


def expectile_losses(differences: Tensor, expectile: float) -> Tensor:
    """Return `|tau - 1(u < 0)| u^2` of differences u `[B]`, least at the tau-expectile (eq. 3)."""
    sides = torch.where(differences < 0, 1 - expectile, expectile)
    return sides * differences.square()


def advantage_weights(advantages: Tensor, beta: float) -> Tensor:
    """Return `min(exp(beta A), 100)` of advantages A `[B]`, which have no gradient."""
    # The cap comes after exp, so that a weight at it is 100 to the bit.
    return (beta * advantages).exp().clamp_max(MAX_WEIGHT)


def q_of_actions(
    critic: QFunctions, features: Features, actions: Tensor, distribution: Distribution
) -> Tensor:
    """Return Q(s, a) of every Q-function, `[E, B]`.

    Args:
        critic: The Q-functions.
        features: The features of each row, `[B, …]`.
        actions: As they are stored: continuous ones before tanh, `[B, …]`.
        distribution: Of the actions.
    """
    if isinstance(distribution, SquashedGaussian):
        of_actions: Tensor = critic(features, actions.reshape(len(actions), -1).tanh())
        return of_actions.squeeze(-1)
    return chosen(critic(features), actions)


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(IQLConfig)
