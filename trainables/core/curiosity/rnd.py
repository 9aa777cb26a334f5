"""Random network distillation (Burda et al., 2018, arXiv 1810.12894).

A network predicts what another one, with weights that stay random, makes of the next observation.
It learns to where it was; how wrong it is, is the bonus.
"""

from __future__ import annotations

from torch import Tensor, nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.curiosity.novelty import BONUS, Novelty, feature_network
from trainables.core.curiosity.seen import Seen
from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import Features, FeatureSpec
from trainables.core.learning.learner import Metrics
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.layers import activation_layer, mlp


class RandomDistillation(Novelty):
    """A random network, and its predictor.

    Args:
        spec: The policy's features.
        settings: The `exploration_config`.
    """

    def __init__(self, spec: FeatureSpec, settings: ExplorationConfig):
        super().__init__()
        self.seen = Seen(spec, settings.normalize_observations)
        self.random = feature_network(self.seen.spec, settings).requires_grad_(False)
        width = settings.feature_dim
        self.predictor = nn.Sequential(
            feature_network(self.seen.spec, settings),
            activation_layer(settings.predictor_activation),
            mlp(
                width,
                settings.predictor_hiddens,
                settings.predictor_activation,
                num_outputs=width,
            ),
        )
        self.trained = self.predictor

    def observe(self, features: Features, ranks: Ranks) -> None:
        self.seen.observe(features, ranks)

    def bonus(self, batch: Batch) -> Tensor:
        """Return the mean squared error over the features, `[M]`."""
        seen = self.seen(tree_of(batch, "next_features"))
        return (self.predictor(seen) - self.random(seen).detach()).square().mean(-1)

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        bonus = self.bonus(batch)
        batch[BONUS], loss = bonus.detach(), bonus.mean()
        return loss, {"predictor_loss": loss.detach()}
