"""QMIX: one Q of a team that its agents' own Qs say together (Rashid et al., 2018); also VDN."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import huber_loss, mse_loss

from trainables.core.config.own_settings import default_config_of
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import Features, map_tensors
from trainables.core.learning.learner import LossFn, Metrics
from trainables.core.learning.q_sequences import sequence_logits
from trainables.core.networks.team_q import TeamQ
from trainables.core.reported_metrics import GRAD_NORM, LR, Reported, learned
from trainables.dqn import DQN, DQNOptions, row_logits, td_targets
from trainables.off_policy import OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.settings.qmix import QMIXConfig as QMIXConfig


class QMIX(DQN):
    """DQN of a team: of one Q for all agents, which is greatest where each agent's own is."""

    config_class = QMIXConfig
    config: QMIXConfig
    reported_metrics = (
        learned(
            "qf_loss",
            "",
            "mean of w loss(Q_tot(s, a) - y): Huber's or the square (`td_error_loss_fn`), w the "
            "importance weights",
        ),
        learned("q_mean", "discounted return", "mean Q_tot(s, a) of replayed steps"),
        learned(
            "q_max",
            "discounted return",
            "the greatest Q_tot(s, a) of a batch, mean over updates; far above any possible "
            "return: Q diverges",
        ),
        learned("td_error_mean", "discounted return", "mean of |Q_tot(s, a) - y|"),
        GRAD_NORM,
        LR,
        Reported("exploration/epsilon", "", "probability of a uniform action, of each agent"),
        *OffPolicy.reported_metrics,
    )

    def module_options(self, module_id: str | None = None) -> dict[str, Any]:
        config = self.config if module_id is None else self.config_of(module_id)
        return {
            **super().module_options(module_id),
            "type": "team_q",
            "monotonic": config.mixer == "qmix",
            "mixing_embed_dim": config.mixing_embed_dim,
            "hypernet_embed_dim": config.hypernet_embed_dim,
            "obs_agent_id": config.obs_agent_id,
        }

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        return partial(qmix_loss, **cls.loss_arguments(worker, module_id))


def qmix_loss(
    online: TeamQ, batch: Batch, target: TeamQ, options: DQNOptions
) -> tuple[Tensor, Metrics]:
    """TD loss of Q_tot (Rashid et al., 2018, eq. 6).

    The greedy joint action is that of each agent's greedy actions, as the mixer is monotone.

    Args:
        online: Is trained, agents and mixer.
        batch: As for `dqn_loss`; actions of each agent, `[B, G]`.
        target: Rates the next actions, agents and mixer.
        options: Which parts of Rainbow, and of what is learned from.

    Returns:
        The scalar loss, and detached scalars to report with the rows' `priorities` `[B]`: the
        absolute TD errors.
    """
    if online.is_recurrent:
        logits: Any = sequence_logits(online, target, batch, options.burn_in)
    else:
        logits = row_logits(online, target, batch, options.double_q)
    features, next_features = _before_and_after(online, batch, options.burn_in)
    chosen = chosen_by_each(online.expected(logits.online), batch["actions"])
    q_values = online.mixer(chosen, online.states(features))
    with torch.no_grad():
        next_q = target.expected(logits.next_target)  # [B, G, A]
        chooser = online.expected(logits.next_online) if options.double_q else next_q
        next_chosen = chosen_by_each(next_q, chooser.argmax(-1))
        next_values = target.mixer(next_chosen, target.states(next_features))
        targets = td_targets(batch["rewards"], batch["discounts"], next_values)
    loss_fn = huber_loss if options.td_error_loss_fn == "huber" else mse_loss
    losses = loss_fn(q_values, targets, reduction="none")
    loss = (batch["weights"] * losses).mean()
    priorities, q_values = (q_values - targets).detach().abs(), q_values.detach()
    return loss, {
        "qf_loss": loss.detach(),
        "q_mean": q_values.mean(),
        "q_max": q_values.amax(),
        "td_error_mean": priorities.mean(),
        "priorities": priorities,
    }


def chosen_by_each(values: Tensor, actions: Tensor) -> Tensor:
    """Return the values `[B, G, A]` of each agent's action `[B, G]`, `[B, G]`."""
    index = actions.reshape(values.shape[:-1]).unsqueeze(-1)
    return values.gather(-1, index).squeeze(-1)


def _before_and_after(online: TeamQ, batch: Batch, burn_in: int) -> tuple[Features, Features]:
    """Return the features of the rows that are learned from, and of those that follow, `[B, …]`."""
    features = tree_of(batch, "features")
    if not online.is_recurrent:
        return features, tree_of(batch, "next_features")
    late = map_tensors(lambda part: part[burn_in:].flatten(0, 1), features)
    rows, next_rows = batch["rows"], batch["next_rows"]
    before = map_tensors(lambda part: part[rows], late)
    return before, map_tensors(lambda part: part[next_rows], late)


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(QMIXConfig)
