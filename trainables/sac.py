"""Soft actor-critic (Haarnoja et al., 2018, arXiv 1812.05905), also for discrete actions."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.own_settings import default_config_of
from trainables.core.config.settings import refuse_given
from trainables.core.data.batch import Batch, tree_of
from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.learning.coefficients import Coefficient
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.soft_values import entropies, legal_probs, soft_values
from trainables.core.networks.modules import PolicyModule
from trainables.core.networks.soft_actor_critic import QFunctions, SoftActorCritic, chosen
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import ENTROPY, Reported, learned, of_groups
from trainables.off_policy import NOISE_STDDEV, Q_MAX, Q_MEAN, OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.sac import SACConfig as SACConfig

# Of the greatest entropy that discrete actions can have; Christodoulou (2019) has 0.98, most
# implementations this.
_ENTROPY_SHARE = 0.89


class SAC(OffPolicy):
    """Maximise return plus entropy: learn Q, a policy that follows it, and the entropy's weight."""

    config_class = SACConfig
    config: SACConfig
    reported_metrics = (
        learned(
            "qf_loss",
            "",
            "sum over the Q-functions of half the mean of w (Q(s, a) - y)² (Haarnoja et al., "
            "2018b, eq. 5), w the importance weights",
        ),
        learned(
            "policy_loss", "discounted return", "mean of alpha log pi(a|s) - min Q(s, a) (eq. 9)"
        ),
        learned("alpha_loss", "", "mean of log alpha x (entropy - target entropy) (eq. 18)"),
        learned("alpha", "reward / nat", "weight of the entropy"),
        ENTROPY._replace(
            meaning="mean of -log pi(a|s) of sampled actions, in the squashed space, so it may be "
            "negative; for discrete actions the entropy itself"
        ),
        Q_MEAN,
        Q_MAX,
        learned(
            "td_error_mean", "discounted return", "mean of |Q(s, a) - y| over both Q-functions"
        ),
        *of_groups(actor="the policy's", critic="the Q-functions'", alpha="log alpha's"),
        Reported(
            "exploration/scale",
            "",
            "factor of the noise on actions",
            "`exploration_config` of the type GaussianNoise or OrnsteinUhlenbeckNoise",
        ),
        NOISE_STDDEV,
        *OffPolicy.reported_metrics,
    )

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        super().set_up_learning(seed)
        self._check_spaces()

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        super().modules_changed(seed)
        self._check_spaces()

    def explores_uniformly(self, num_env_steps: int, module_id: str | None = None) -> bool:
        warms_up = self._warms_up(num_env_steps, module_id)
        return warms_up or super().explores_uniformly(num_env_steps, module_id)

    def _warms_up(self, num_env_steps: int, module_id: str | None) -> bool:
        """Tell whether actions are uniform because learning has not started yet.

        A resumed run that refills its buffer explores with what it has learned. Policies that are
        not trained act as they are.

        Args:
            num_env_steps: Environment steps since the trial began.
            module_id: Which module waits for its updates; None: any.
        """
        is_given = self._resolved_of(module_id).exploration.random_timesteps is not None
        if is_given or not self.config.random_warmup:
            return False
        waiting = [module_id] if module_id is not None else [*self.experience]
        starting = any(
            m in self.experience and not self._num_updates[m] and not self.experience.is_enough(m)
            for m in waiting
        )
        # Of later steps than those so far: whether they will be of the warm-up, too.
        warm_up = self.config.num_steps_sampled_before_learning_starts
        return starting and num_env_steps <= max(self.num_env_steps_sampled, warm_up)

    def learning_rates(self, module_id: str | None = None) -> dict[str, float]:
        """Return the present rates of policy, Q-functions and log alpha."""
        config = self.config if module_id is None else self.config_of(module_id)
        rates = {"actor": config.actor_lr, "critic": config.critic_lr, "alpha": config.alpha_lr}
        return {n: self.scheduled(config.lr if r is None else r) for n, r in rates.items()}

    def module_options(self, module_id: str | None = None) -> dict[str, Any]:
        config = self.config if module_id is None else self.config_of(module_id)
        return {
            "type": "soft_actor_critic",
            **config.networks,
            "initial_alpha": config.initial_alpha,
        }

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        assert isinstance(module, SoftActorCritic)
        return {
            "groups": {
                "actor": module.actor.parameters(),
                "critic": module.critic.parameters(),
                "alpha": [module.log_alpha],
            },
            "targets": {"critic": module.critic},
            "undecayed": ("alpha",),
        }

    def prepare(self, policy: Policy, batch: Batch) -> Batch:
        columns = super().prepare(policy, batch)
        if isinstance(policy.distribution, SquashedGaussian):
            # The buffer keeps what was sampled before tanh; Q is a function of the action.
            actions = columns["actions"].tanh()
            columns["actions"] = actions.reshape(len(actions), -1)
            shape = (2, *columns["actions"].shape)
            noise = torch.zeros(shape)
            if not self._config_of_policy(policy)._deterministic_loss:
                noise.normal_(generator=self.learners.generator)
            columns["noise"], columns["next_noise"] = noise.to(policy.device)
        return columns

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        policy, entropy = worker.policies[module_id], worker.config_of(module_id).target_entropy
        distribution = policy.distribution
        target: Any = worker.learners[module_id].targets["critic"].network
        goal = auto_entropy(policy) if entropy == "auto" else float(entropy)
        if isinstance(distribution, SquashedGaussian):
            return partial(sac_loss, target=target, distribution=distribution, target_entropy=goal)
        has_mask = policy.observations.preprocessor.spec.num_mask > 0
        of_legal = entropy == "auto" and has_mask  # of as many actions as each row allows
        return partial(discrete_sac_loss, target=target, target_entropy=None if of_legal else goal)

    def _check_spaces(self) -> None:
        """Refuse what would be ignored where a module's actions are discrete."""
        for module_id, policy in self.trained_policies.items():
            if not isinstance(policy.distribution, SquashedGaussian):
                self._refuse_gaussian_settings(self.config_of(module_id))

    def _refuse_gaussian_settings(self, config: SACConfig) -> None:
        """Refuse what is for continuous actions alone."""
        refuse_given(
            config, "_deterministic_loss", "discrete actions: losses are sums over all of them"
        )


def auto_entropy(policy: Policy) -> float:
    """Target entropy: -d for d continuous dimensions, a share of the maximum for n actions."""
    distribution = policy.distribution
    if isinstance(distribution, SquashedGaussian):
        return -float(math.prod(distribution.action_shape))
    return _ENTROPY_SHARE * math.log(distribution.num_inputs)


def sac_loss(
    module: SoftActorCritic,
    batch: Batch,
    target: QFunctions,
    distribution: SquashedGaussian,
    target_entropy: Coefficient,
) -> tuple[Tensor, Metrics]:
    """J_Q (eq. 5) + J_pi (eq. 9) + J(alpha) (eq. 18), for continuous actions.

    The three have no parameter in common that more than one of them gives a gradient to, so that
    one backward pass and one optimiser step do for all.

    Args:
        module: Is trained.
        batch: features, actions in (-1, 1), rewards (n-step sums), discounts (gamma^n, 0 after a
            terminal state), next_features, weights (importance), noise and next_noise (standard
            normal), `[B, …]`.
        target: Slow copy of the Q-functions.
        distribution: Of the actions.
        target_entropy: Entropy that alpha is steered to, nats.

    Returns:
        The scalar loss, and detached scalars to report with the rows' `priorities` `[B]`.
    """
    features, next_features = tree_of(batch, "features"), tree_of(batch, "next_features")
    log_alpha = log_alpha_of(module)
    alpha = log_alpha.detach().exp()
    with torch.no_grad():
        next_inputs = module.dist_inputs(next_features)
        targets = soft_targets(batch, target, distribution, next_inputs, alpha)
    q_values = module.critic(features, batch["actions"]).squeeze(-1)  # [E, B]
    critic_loss, priorities = q_loss(q_values, targets, batch)

    actions, logp = distribution.rsample(module.dist_inputs(features), batch["noise"])
    q_of_policy = module.critic(features, actions, freeze=True).squeeze(-1).amin(-2)
    actor_loss = (alpha * logp - q_of_policy).mean(-1)
    alpha_loss = temperature_loss(log_alpha, -logp, target_entropy)
    losses = (critic_loss, actor_loss, alpha_loss)
    loss = critic_loss + actor_loss + alpha_loss
    return loss, metrics_of(*losses, alpha, -logp, q_values, priorities)


def log_alpha_of(module: SoftActorCritic) -> Tensor:
    """Return log alpha as rows meet it, `[]` beside `[B]`."""
    return module.log_alpha.squeeze(-1)


def soft_targets(
    batch: Batch,
    target: QFunctions,
    distribution: SquashedGaussian,
    next_inputs: Tensor,
    alpha: Tensor | float,
) -> Tensor:
    """Return `y = r + gamma^n (min Q'(s', a') - alpha log pi(a'|s'))` of each row, `[B]`.

    Args:
        batch: As for `sac_loss`.
        target: Slow copy of the Q-functions.
        distribution: Of the actions.
        next_inputs: What the policy says of the next features, `[B, 2 d]`.
        alpha: Weight of the entropy; 0 leaves it out.
    """
    next_actions, next_logp = distribution.rsample(next_inputs, batch["next_noise"])
    next_q = target(tree_of(batch, "next_features"), next_actions).squeeze(-1).amin(-2)
    next_values = next_q - alpha * next_logp  # soft state values, eq. 3
    return batch["rewards"] + batch["discounts"] * next_values


def discrete_sac_loss(
    module: SoftActorCritic, batch: Batch, target: QFunctions, target_entropy: Coefficient | None
) -> tuple[Tensor, Metrics]:
    """Return the three losses with expectations over actions as sums (Christodoulou, 2019).

    Args:
        module: Is trained.
        batch: As for `sac_loss`, with actions `[B]` and no noise.
        target: Slow copy of the Q-functions.
        target_entropy: Entropy that alpha is steered to, nats; None: a share of the greatest one
            over the actions that each row allows.

    Returns:
        As `sac_loss`.
    """
    features, next_features = tree_of(batch, "features"), tree_of(batch, "next_features")
    log_alpha = log_alpha_of(module)
    alpha = log_alpha.detach().exp()
    with torch.no_grad():
        next_q = target(next_features).amin(-3)  # [B, A]
        next_probs = legal_probs(module.dist_inputs(next_features))
        next_values = soft_values(next_probs, next_q, alpha.unsqueeze(-1))
        targets = batch["rewards"] + batch["discounts"] * next_values
    all_q = module.critic(features)  # [E, B, A]
    q_values = chosen(all_q, batch["actions"])  # [E, B]
    critic_loss, priorities = q_loss(q_values, targets, batch)

    inputs = module.dist_inputs(features)
    probs = legal_probs(inputs)
    values = soft_values(probs, all_q.detach().amin(-3), alpha.unsqueeze(-1))
    actor_loss = -values.mean(-1)
    entropy = entropies(probs)
    goal = legal_entropy(inputs) if target_entropy is None else target_entropy
    alpha_loss = temperature_loss(log_alpha, entropy, goal)
    losses = (critic_loss, actor_loss, alpha_loss)
    loss = critic_loss + actor_loss + alpha_loss
    return loss, metrics_of(*losses, alpha, entropy, q_values, priorities)


def legal_entropy(inputs: Tensor) -> Tensor:
    """Target entropy of each row: the share of the greatest over its legal actions, `[B]`."""
    return _ENTROPY_SHARE * (inputs != ILLEGAL).sum(-1).log()


def q_loss(q_values: Tensor, targets: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Half the squared TD error, summed over the functions, its mean weighted by importance.

    Args:
        q_values: `[E, B]`.
        targets: `[B]`.
        batch: Has the rows' weights, `[B]`.

    Returns:
        The scalar loss, and the rows' absolute TD errors, means over the functions, `[B]`.
    """
    errors = q_values - targets.unsqueeze(-2)
    loss = 0.5 * (batch["weights"].unsqueeze(-2) * errors.square()).mean(-1).sum(-1)
    return loss, errors.detach().abs().mean(-2)


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: Coefficient) -> Tensor:
    """Alpha falls while the policy's entropy `[B]` is above its target, and rises below it.

    Of log alpha instead of alpha, as most implementations: the step does not vanish with alpha.

    Args:
        log_alpha: See `log_alpha_of`.
        entropy: `[B]`.
        target_entropy: One for all rows, or each row's, `[B]`.
    """
    return (log_alpha * (entropy.detach() - target_entropy)).mean(-1)


def metrics_of(
    critic_loss: Tensor,
    actor_loss: Tensor,
    alpha_loss: Tensor,
    alpha: Tensor,
    entropy: Tensor,
    q_values: Tensor,
    priorities: Tensor,
) -> Metrics:
    """Return what SAC reports of a gradient step, with the rows' `priorities` `[B]`."""
    return {
        "qf_loss": critic_loss.detach(),
        "policy_loss": actor_loss.detach(),
        "alpha_loss": alpha_loss.detach(),
        "alpha": alpha.squeeze(-1),
        "entropy": entropy.detach().mean(-1),
        "q_mean": q_values.detach().mean(-2).mean(-1),
        "q_max": q_values.detach().amax((-2, -1)),
        "td_error_mean": priorities.mean(-1),
        "priorities": priorities,
    }


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(SACConfig)
