"""The intrinsic curiosity module (Pathak et al., 2017, arXiv 1705.05363).

Features phi are what an inverse model needs to tell which action was taken between two
observations. A forward model predicts the features of the next one; how wrong it is, is the bonus.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.novelty import BONUS, Novelty, feature_network
from trainables.core.curiosity.seen import Seen
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import Features, FeatureSpec, joined_rows
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.gaussian import DiagGaussian
from trainables.core.distributions.joint import Joint
from trainables.core.learning.learner import Metrics
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.layers import mlp


class IntrinsicCuriosity(Novelty):
    """Features, an inverse and a forward model.

    Args:
        spec: The policy's features.
        distribution: Of the actions; it says how networks see them.
        settings: The `exploration_config`.
    """

    def __init__(self, spec: FeatureSpec, distribution: Distribution, settings: ExplorationConfig):
        super().__init__()
        self._distribution, self._settings = distribution, settings
        width, num_encoded = settings.feature_dim, distribution.num_encoded
        self.seen = Seen(spec, settings.normalize_observations)
        self.features = feature_network(self.seen.spec, settings)
        self.inverse = mlp(
            2 * width,
            settings.inverse_net_hiddens,
            settings.inverse_net_activation,
            num_outputs=num_encoded,
        )
        self.forward_model = mlp(
            width + num_encoded,
            settings.forward_net_hiddens,
            settings.forward_net_activation,
            num_outputs=width,
        )
        self.trained = torch.nn.ModuleList([self.features, self.inverse, self.forward_model])

    def observe(self, features: Features, ranks: Ranks) -> None:
        self.seen.observe(features, ranks)

    def _both_features(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return phi(s) and phi(s'), `[M, feature_dim]`."""
        seen = [self.seen(tree_of(batch, name)) for name in ("features", "next_features")]
        before, after = self.features(joined_rows(seen)).chunk(2)  # one pass is faster than two
        return before, after

    def _errors(self, before: Tensor, after: Tensor, actions: Tensor) -> Tensor:
        """Return `|f(phi(s), a) - phi(s')|² / 2`, `[M]` (equation 5)."""
        predicted = self.forward_model(torch.cat([before, actions], -1))
        return 0.5 * (predicted - after).square().sum(-1)

    def bonus(self, batch: Batch) -> Tensor:
        actions = self._distribution.encode(batch["actions"])
        return self._errors(*self._both_features(batch), actions)

    def rollout_bonus(self, features: Features, actions: Tensor) -> Tensor:
        phi = self.features(self.seen(features))  # of each row once: it is the next one's, too
        return self._errors(phi[:-1], phi[1:], self._distribution.encode(actions))

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """Return `(1 - beta) L_inverse + beta L_forward`, and both."""
        actions = self._distribution.encode(batch["actions"])
        before, after = self._both_features(batch)
        told = self.inverse(torch.cat([before, after], -1))
        inverse = inverse_loss(self._distribution, told, batch["actions"]).mean()
        if self._settings.detach_features:
            before, after = before.detach(), after.detach()
        errors = self._errors(before, after, actions)
        batch[BONUS], forward = errors.detach(), errors.mean()
        beta = self._settings.beta
        loss = (1 - beta) * inverse + beta * forward
        return loss, {"inverse_loss": inverse.detach(), "forward_loss": forward.detach()}


def inverse_loss(distribution: Distribution, told: Tensor, actions: Tensor) -> Tensor:
    """Return how wrong an inverse model is about actions, `[M]`.

    Cross-entropies of choices, in nats, and half the squared errors of continuous actions; of
    several they add up.

    Args:
        distribution: Of the actions.
        told: What it says of them, `[M, num_encoded]`: logits, or the actions as networks see them.
        actions: As they are stored, `[M, *action_shape]`.
    """
    if isinstance(distribution, Joint):
        parts = list(distribution.parts.values())
        tolds = told.split([part.num_encoded for part in parts], -1)
        triples = zip(parts, tolds, distribution.split(actions), strict=True)
        return torch.stack([inverse_loss(*one) for one in triples]).sum(0)
    if isinstance(distribution, Categorical):  # also of actions that were drawn epsilon-greedily
        return cross_entropy(told, actions, reduction="none")
    if isinstance(distribution, DiagGaussian):
        return 0.5 * (told - distribution.encode(actions)).square().sum(-1)
    return -distribution.logp(told, actions)
