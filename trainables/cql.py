"""CQL: conservative Q-learning from recorded data (Kumar et al., 2020, arXiv 2006.04779)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from trainables.core.config.own_settings import default_config_of
from trainables.core.config.settings import refuse_given
from trainables.core.data.batch import Batch, tree_of
from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.recorded_actions import log_likelihood
from trainables.core.learning.soft_maximum import log_integral, log_sum, proposals
from trainables.core.learning.soft_values import entropies, legal_probs, soft_values
from trainables.core.networks.modules import PolicyModule
from trainables.core.networks.soft_actor_critic import QFunctions, SoftActorCritic, chosen
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import learned
from trainables.runtime.learners.group import LearnerWorker
from trainables.sac import (
    SAC,
    legal_entropy,
    log_alpha_of,
    metrics_of,
    q_loss,
    soft_targets,
    temperature_loss,
)
from trainables.settings.cql import CQLConfig as CQLConfig

MAX_MULTIPLIER = 1e6
"""Of Lagrange's multiplier, as in the paper's code: squared errors would count for nothing."""

_MULTIPLIER = "multiplier"
_LAGRANGE = "`lagrangian`"


class CQL(SAC):
    """SAC whose Q-functions are pressed down where the data have no actions."""

    config_class = CQLConfig
    config: CQLConfig
    reported_metrics = (
        learned(
            "cql_loss",
            "",
            "the conservative term: sum over the Q-functions of half the mean of w (`min_q_weight` "
            "x gap), with `lagrangian` of w alpha' (`min_q_weight` x gap - `lagrangian_thresh`); w "
            "the importance weights",
        ),
        learned(
            "cql_gap",
            "discounted return",
            "mean over rows and Q-functions of T log of the integral of exp(Q(s, a)/T) over all "
            "actions in (-1, 1)^d, or the sum over discrete ones, less Q(s, a) of the data (Kumar "
            "et al., 2020, eq. 4)",
        ),
        learned("alpha_prime", "", "Lagrange's multiplier, alpha' (appendix F)", _LAGRANGE),
        learned(
            "alpha_prime_loss",
            "",
            "mean of log alpha' x (`lagrangian_thresh` - `min_q_weight` x gap)",
            _LAGRANGE,
        ),
        learned("alpha_prime_grad_norm", "", "L2 norm of the gradient of log alpha'", _LAGRANGE),
        learned("curr_alpha_prime_lr", "", "its learning rate: the Q-functions'", _LAGRANGE),
        *(
            metric._replace(
                meaning=f"{metric.meaning}; in the first `bc_iters` updates of alpha log pi(a|s) - "
                "log pi(a of the data|s)"
            )
            if metric.name.endswith("/policy_loss")
            else metric
            for metric in SAC.reported_metrics
        ),
    )

    def learning_rates(self, module_id: str | None = None) -> dict[str, float]:
        rates = super().learning_rates(module_id)
        config = self.config if module_id is None else self.config_of(module_id)
        return {**rates, "alpha_prime": rates["critic"]} if config.lagrangian else rates

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        options = super().learner_options(config, module)
        if not config.lagrangian:
            return options
        # Beside the policy's networks, which stay those of SAC.
        multiplier = Multiplier()
        return {
            **options,
            "groups": {**options["groups"], "alpha_prime": [multiplier.log_alpha_prime]},
            "networks": {_MULTIPLIER: multiplier},
            "undecayed": (*options["undecayed"], "alpha_prime"),
        }

    def prepare(self, policy: Policy, batch: Batch) -> Batch:
        columns = super().prepare(policy, batch)
        if isinstance(policy.distribution, SquashedGaussian):
            columns["before_tanh"] = batch["actions"]
            # What the actions of the soft maximum are made of.
            rows, size = columns["actions"].shape
            generator, count = self.learners.generator, self._config_of_policy(policy).num_actions
            uniform = torch.empty(rows, count, size).uniform_(-1, 1, generator=generator)
            noise = torch.empty(rows, 2 * count, size).normal_(generator=generator)
            columns["uniform"] = uniform.to(policy.device)
            columns["proposal_noise"] = noise.to(policy.device)
        return columns

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        config: CQLConfig = worker.config_of(module_id)
        of_sac: Any = super().make_loss(worker, module_id)
        options = CQLOptions(
            config.temperature,
            config.min_q_weight,
            config.lagrangian_thresh if config.lagrangian else 0.0,
            config.deterministic_backup,
        )
        log_multiplier = None
        if config.lagrangian:
            multiplier: Any = worker.learners[module_id].networks[_MULTIPLIER]
            log_multiplier = multiplier.log_alpha_prime
        is_discrete = "distribution" not in of_sac.keywords
        return partial(
            discrete_cql_loss if is_discrete else cql_loss,
            **of_sac.keywords,
            options=options,
            log_multiplier=log_multiplier,
        )

    @classmethod
    def loss_at(cls, worker: LearnerWorker, module_id: str, update: int) -> LossFn:
        clones = update < worker.config_of(module_id).bc_iters
        loss: Any = super().loss_at(worker, module_id, update)
        return partial(loss, clones=clones)

    def _refuse_gaussian_settings(self, config: Any) -> None:
        super()._refuse_gaussian_settings(config)
        refuse_given(
            config, "num_actions", "discrete actions: the soft maximum is over all of them"
        )


class Multiplier(nn.Module):
    """Lagrange's multiplier.

    Attributes:
        log_alpha_prime: Its logarithm, `[1]`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_alpha_prime = nn.Parameter(torch.zeros(1))


class CQLOptions(NamedTuple):
    """The numbers in the loss.

    Attributes:
        temperature: T of the soft maximum.
        weight: Of the conservative term.
        threshold: What is subtracted of it, tau; 0 without Lagrange's multiplier.
        deterministic_backup: Whether targets leave the entropy out.
    """

    temperature: float
    weight: float
    threshold: float = 0.0
    deterministic_backup: bool = True


def cql_loss(
    module: SoftActorCritic,
    batch: Batch,
    target: QFunctions,
    distribution: SquashedGaussian,
    target_entropy: float,
    options: CQLOptions,
    log_multiplier: Tensor | None = None,
    *,
    clones: bool = False,
) -> tuple[Tensor, Metrics]:
    """SAC's three losses and the conservative term, CQL(H) (eq. 4), for continuous actions.

    Args:
        module: Is trained.
        batch: As for `sac_loss`, with the data's actions `before_tanh` `[B, …]`, `uniform` ones in
            (-1, 1) `[B, N, d]`, and standard normal `proposal_noise` `[B, 2 N, d]`.
        target: Slow copy of the Q-functions.
        distribution: Of the actions.
        target_entropy: Entropy that alpha is steered to, nats.
        options: Of the conservative term.
        log_multiplier: Logarithm of Lagrange's multiplier, `[1]`, is trained, too; None: without.
        clones: Whether the policy imitates the data instead of climbing Q.

    Returns:
        As `sac_loss`.
    """
    features, next_features = tree_of(batch, "features"), tree_of(batch, "next_features")
    alpha = module.log_alpha.detach().exp()
    inputs = module.dist_inputs(features)
    with torch.no_grad():
        next_inputs = module.dist_inputs(next_features)
        backup_alpha = 0.0 if options.deterministic_backup else alpha
        targets = soft_targets(batch, target, distribution, next_inputs, backup_alpha)
        proposed, log_densities = proposals(
            distribution, inputs, next_inputs, batch["uniform"], batch["proposal_noise"]
        )
    # The data's action first, so that each network sees all of them at once.
    actions = torch.cat([batch["actions"].unsqueeze(1), proposed], 1)
    of_each = module.critic.of_each(features, actions)
    q_values = of_each[..., 0]  # [E, B]
    td_loss, priorities = q_loss(q_values, targets, batch)
    gaps = log_integral(of_each[..., 1:], log_densities, options.temperature) - q_values
    term, metrics = conservative_term(gaps, batch["weights"], options, log_multiplier)

    sampled, logp = distribution.rsample(inputs, batch["noise"])
    alpha_loss = temperature_loss(log_alpha_of(module), -logp, target_entropy)
    loss = td_loss + term + alpha_loss
    if clones:
        worth, excess = log_likelihood(inputs, batch["before_tanh"], distribution)
        loss = loss + excess
    else:
        worth = module.critic(features, sampled, freeze=True).amin(0).squeeze(-1)
    actor_loss = (alpha * logp - worth).mean()
    loss = loss + actor_loss
    reported = metrics_of(td_loss, actor_loss, alpha_loss, alpha, -logp, q_values, priorities)
    return loss, reported | metrics


def discrete_cql_loss(
    module: SoftActorCritic,
    batch: Batch,
    target: QFunctions,
    target_entropy: float | None,
    options: CQLOptions,
    log_multiplier: Tensor | None = None,
    *,
    clones: bool = False,
) -> tuple[Tensor, Metrics]:
    """Return the same with sums over discrete actions, of which only those that a row allows count.

    Args:
        module: Is trained.
        batch: As for `discrete_sac_loss`.
        target: Slow copy of the Q-functions.
        target_entropy: As for `discrete_sac_loss`.
        options: As for `cql_loss`, as the others.
        log_multiplier: See `cql_loss`.
        clones: See `cql_loss`.

    Returns:
        As `sac_loss`.
    """
    features, next_features = tree_of(batch, "features"), tree_of(batch, "next_features")
    alpha = module.log_alpha.detach().exp()
    inputs = module.dist_inputs(features)
    probs = legal_probs(inputs)
    with torch.no_grad():
        next_probs = legal_probs(module.dist_inputs(next_features))
        backup_alpha = 0.0 if options.deterministic_backup else alpha
        next_values = soft_values(next_probs, target(next_features).amin(0), backup_alpha)
        targets = batch["rewards"] + batch["discounts"] * next_values
    all_q = module.critic(features)  # [E, B, A]
    q_values = chosen(all_q, batch["actions"])  # [E, B]
    td_loss, priorities = q_loss(q_values, targets, batch)
    legal_q = all_q.masked_fill(inputs == ILLEGAL, -torch.inf)
    gaps = log_sum(legal_q, options.temperature) - q_values
    term, metrics = conservative_term(gaps, batch["weights"], options, log_multiplier)

    entropy = entropies(probs)
    if clones:
        logp = chosen(probs.log_probs.unsqueeze(0), batch["actions"]).squeeze(0)
        actor_loss = -(alpha * entropy + logp).mean()
    else:
        actor_loss = -soft_values(probs, all_q.detach().amin(0), alpha).mean()
    goal = legal_entropy(inputs) if target_entropy is None else target_entropy
    alpha_loss = temperature_loss(log_alpha_of(module), entropy, goal)
    loss = td_loss + term + actor_loss + alpha_loss
    reported = metrics_of(td_loss, actor_loss, alpha_loss, alpha, entropy, q_values, priorities)
    return loss, reported | metrics


def conservative_term(
    gaps: Tensor, weights: Tensor, options: CQLOptions, log_multiplier: Tensor | None
) -> tuple[Tensor, Metrics]:
    """Return what the critics' loss has beside the TD errors, and the multiplier's (appendix F).

    Half of it, as of the squared errors: the weight is that of the paper's code, which halves
    neither. Equation 4 halves the errors alone, so that its alpha is half the weight.

    Args:
        gaps: The soft maximum of Q less Q of the data, `[E, B]`.
        weights: Importance weights of the rows, `[B]`.
        options: Weight and threshold.
        log_multiplier: Logarithm of Lagrange's multiplier, `[1]`; None: without.

    Returns:
        The scalar loss, and detached scalars to report.
    """
    excess = (weights * (options.weight * gaps - options.threshold)).mean(-1)  # [E]
    metrics = {"cql_gap": gaps.detach().mean()}
    if log_multiplier is None:
        loss = 0.5 * excess.sum()
        return loss, metrics | {"cql_loss": loss.detach()}
    multiplier = log_multiplier.detach().exp().clamp_max(MAX_MULTIPLIER)
    term = 0.5 * (multiplier * excess).sum()
    multiplier_loss = lagrange_loss(log_multiplier, excess)
    return term + multiplier_loss, metrics | {
        "cql_loss": term.detach(),
        "alpha_prime": multiplier,
        "alpha_prime_loss": multiplier_loss.detach(),
    }


def lagrange_loss(log_multiplier: Tensor, excess: Tensor) -> Tensor:
    """Return a loss by which the multiplier rises while the term is above its threshold.

    Of log alpha' instead of alpha', as SAC's temperature: the step does not vanish with alpha'.

    Args:
        log_multiplier: `[1]`.
        excess: By how much the term of each Q-function is above, `[E]`.
    """
    return -(log_multiplier * excess.detach().mean()).sum()


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(CQLConfig)
