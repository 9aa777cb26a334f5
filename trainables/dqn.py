"""Deep Q-learning (Mnih et al., 2015) with the extensions of Rainbow (Hessel et al., 2018)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch, tree_of
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.q_sequences import GivesLogits, QLogits, sequence_logits
from trainables.core.networks.modules import PolicyModule
from trainables.core.networks.q_network import QNetwork
from trainables.core.reported_metrics import (
    GRAD_NORM,
    LR,
    Reported,
    learned,
)
from trainables.off_policy import NOISE_STDDEV, Q_MAX, Q_MEAN, OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.dqn import DQNConfig as DQNConfig


class DQN(OffPolicy):
    """Act by Q, remember, and learn Q from what is replayed and a slowly changing target."""

    config_class = DQNConfig
    config: DQNConfig
    reported_metrics = (
        learned(
            "qf_loss",
            "",
            "mean of w loss(Q(s, a) - y): Huber's or the square (`td_error_loss_fn`), w the "
            "importance weights; with `num_atoms` above 1 the cross-entropy (Bellemare et al., "
            "2017, eq. 7)",
        ),
        Q_MEAN,
        Q_MAX,
        learned(
            "td_error_mean",
            "discounted return",
            "mean of |Q(s, a) - y|; with `num_atoms` above 1 the cross-entropy, nats",
        ),
        GRAD_NORM,
        LR,
        Reported("exploration/epsilon", "", "probability of a uniform action"),
        NOISE_STDDEV,
        *OffPolicy.reported_metrics,
    )

    def set_exploration(self) -> dict[str, float]:
        return {**self._epsilons(), **super().set_exploration()}

    def _epsilons(self) -> dict[str, float]:
        """Return what is reported of epsilon: of each module where they have not all the same."""
        epsilons = {m: self._epsilon(m) for m in self.policies}
        first, *others = epsilons.values()
        if all(other == first for other in others):
            return {"exploration/epsilon": self.scheduled(first)}
        return {f"exploration/{m}/epsilon": self.scheduled(own) for m, own in epsilons.items()}

    def _epsilon(self, module_id: str | None) -> float | list[Any]:
        resolved: Any = self._resolved_of(module_id)
        epsilon: float | list[Any] = resolved.epsilon
        return epsilon

    def learning_rates(self, module_id: str | None = None) -> float:
        config = self.config if module_id is None else self.config_of(module_id)
        return self.scheduled(config.lr)

    def exploration_at(self, num_env_steps: int, module_id: str | None = None) -> dict[str, Any]:
        epsilon = self.scheduled(self._epsilon(module_id), num_env_steps)
        return {"epsilon": epsilon, **super().exploration_at(num_env_steps, module_id)}

    def module_options(self, module_id: str | None = None) -> dict[str, Any]:
        config = self.config if module_id is None else self.config_of(module_id)
        return {
            "type": "q_network",
            "dueling": config.dueling,
            "hiddens": config.hiddens,
            "noisy": config.noisy,
            "sigma0": config.sigma0,
            "num_atoms": config.num_atoms,
            "v_min": config.v_min,
            "v_max": config.v_max,
            "temperature": config.categorical_distribution_temperature,
        }

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        return {
            "groups": {"q": module.parameters()},
            "targets": {"q": module},
        }

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        return partial(dqn_loss, **cls.loss_arguments(worker, module_id))

    @classmethod
    def loss_arguments(cls, worker: LearnerWorker, module_id: str) -> dict[str, Any]:
        """Return what a module's loss takes beside it and the batch: `target` and `options`."""
        config, sequences = worker.config_of(module_id), worker.resolved_of(module_id).sequences
        burn_in = sequences.burn_in if sequences else 0
        options = DQNOptions(config.double_q, config.td_error_loss_fn, burn_in)
        return {"target": worker.learners[module_id].targets["q"].network, "options": options}

    @classmethod
    def draw_noise(cls, worker: LearnerWorker, module_id: str) -> None:
        target: Any = worker.learners[module_id].targets["q"].network
        for network in (worker.policies[module_id].module, target):
            network.set_noise(worker.generator)


class DQNOptions(NamedTuple):
    """What the loss is made of."""

    double_q: bool
    td_error_loss_fn: str
    burn_in: int = 0


def dqn_loss(
    online: QNetwork, batch: Batch, target: QNetwork, options: DQNOptions
) -> tuple[Tensor, Metrics]:
    """TD loss of Q, or the cross-entropy of the return's distribution (Bellemare et al., eq. 7).

    Args:
        online: Is trained.
        batch: features, actions, rewards (n-step sums), discounts (gamma^n, 0 after a terminal
            state), next_features, weights (importance), `[B, …]`; of a recurrent network what
            `q_sequences` makes, of which only valid rows reach the loss.
        target: Rates the next actions.
        options: Which parts of Rainbow.

    Returns:
        The scalar loss, and detached scalars to report with the rows' `priorities` `[B]`: the
        absolute TD error, or the cross-entropy.
    """
    if online.is_recurrent:
        logits = sequence_logits(online, target, batch, options.burn_in)
    else:
        logits = row_logits(online, target, batch, options.double_q)
    loss_of = td_losses if online.num_atoms == 1 else categorical_losses
    losses, priorities, q_values = loss_of(online, logits, batch, options)
    loss = (batch["weights"] * losses).mean(-1)
    q_values = q_values.detach()
    return loss, {
        "qf_loss": loss.detach(),
        "q_mean": q_values.mean(-1),
        "q_max": q_values.amax(-1),
        "td_error_mean": priorities.mean(-1),
        "priorities": priorities,
    }


def row_logits(online: GivesLogits, target: GivesLogits, batch: Batch, double_q: bool) -> QLogits:
    """Return what both networks say of rows that each stand for themselves."""
    features, next_features = tree_of(batch, "features"), tree_of(batch, "next_features")
    logits = online.logits(features)
    with torch.no_grad():
        next_target = target.logits(next_features)
        next_online = online.logits(next_features) if double_q else next_target
    return QLogits(logits, next_online, next_target)


def td_losses(
    online: QNetwork, logits: QLogits, batch: Batch, options: DQNOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Huber or squared TD errors: losses, priorities and Q(s, a) of each row, `[B]`."""
    q_values = _chosen(online.expected(logits.online), batch["actions"])
    with torch.no_grad():
        next_q = online.expected(logits.next_target)  # [B, A]
        if options.double_q:
            next_values = _chosen(next_q, online.expected(logits.next_online).argmax(-1))
        else:
            next_values = next_q.amax(-1)
        targets = td_targets(batch["rewards"], batch["discounts"], next_values)
    loss_fn = huber_loss if options.td_error_loss_fn == "huber" else mse_loss
    losses = loss_fn(q_values, targets, reduction="none")
    return losses, (q_values - targets).detach().abs(), q_values


def categorical_losses(
    online: QNetwork, logits: QLogits, batch: Batch, options: DQNOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cross-entropies of the return's distribution (also priorities), and Q(s, a)."""
    chosen = _chosen(logits.online, batch["actions"])  # [B, num_atoms]
    with torch.no_grad():
        chooser = logits.next_online if options.double_q else logits.next_target
        next_chosen = _chosen(logits.next_target, online.expected(chooser).argmax(-1))
        target_probs = project(
            next_chosen.softmax(-1), batch["rewards"], batch["discounts"], online.atoms
        )
    losses = -(target_probs * chosen.log_softmax(-1)).sum(-1)
    return losses, losses.detach(), online.expected(chosen)


def _chosen(values: Tensor, actions: Tensor) -> Tensor:
    """Return the entries of `values` `[…, A, N]` or `[…, A]` that actions `[…]` stand for."""
    axis, after = actions.dim(), values.shape[actions.dim() + 1 :]
    index = actions.view(*actions.shape, 1, *[1] * len(after))
    return values.gather(axis, index.expand(*actions.shape, 1, *after)).squeeze(axis)


def td_targets(rewards: Tensor, discounts: Tensor, next_values: Tensor) -> Tensor:
    """Return `R + gamma^n Q(s', a')`, without the bootstrap where the discount is 0, all `[B]`."""
    return rewards + discounts * next_values


def project(probs: Tensor, rewards: Tensor, discounts: Tensor, atoms: Tensor) -> Tensor:
    """Project `R + gamma^n Z` onto the atoms (Bellemare et al., 2017, algorithm 1).

    Args:
        probs: Of Z over the atoms, `[…, N]`.
        rewards: n-step sums, `[…]`.
        discounts: gamma^n, 0 after a terminal state, `[…]`.
        atoms: Evenly spaced, `[N]`.

    Returns:
        Probabilities, `[…, N]`.
    """
    last = len(atoms) - 1
    spacing = (atoms[-1] - atoms[0]) / last
    moved = rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * atoms
    position = ((moved.clamp(atoms[0], atoms[-1]) - atoms[0]) / spacing).clamp(0, last)
    lower = position.floor()
    # Linear interpolation. On an atom itself the upper share is 0: its mass is counted once.
    upper_share = position - lower
    below = lower.long()
    projected = torch.zeros_like(probs).scatter_add_(-1, below, probs * (1 - upper_share))
    return projected.scatter_add_(-1, (below + 1).clamp_max(last), probs * upper_share)


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(DQNConfig)
