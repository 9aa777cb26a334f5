"""`Novelty`: what says how new the steps of a batch are, and learns from them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.data.batch import Batch, tree_columns
from trainables.core.data.features import Features, FeatureSpec, map_tensors
from trainables.core.learning.learner import Metrics
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.encoders import network

BONUS = "bonus"
"""The column of a batch that holds bonuses, `[M]`."""


class Novelty(nn.Module, ABC):
    """How new the transitions of a batch are.

    A batch has the columns features, actions and next_features, `[M, …]`: transitions of one step.

    Attributes:
        has_size: Whether bonuses have a size of their own, so that they need not be normalised.
        trained: The networks that learn by gradients; None if there is none.
    """

    has_size = False
    trained: nn.Module | None

    def observe(self, features: Features, ranks: Ranks) -> None:
        """Take in what steps of all ranks led to, `[M, …]`, before their bonuses.

        M may be 0 on some ranks.
        """
        return

    @abstractmethod
    def bonus(self, batch: Batch) -> Tensor:
        """Return the bonus of each transition, `[M]`, 0 or more."""

    def rollout_bonus(self, features: Features, actions: Tensor) -> Tensor:
        """Return the bonuses of a rollout's rows, `[T, N]`, also of those that are no steps.

        Args:
            features: Of all rows, `[T+1, N, …]`.
            actions: `[T, N, …]`.
        """
        before = map_tensors(lambda part: part[:-1].flatten(0, 1), features)
        after = map_tensors(lambda part: part[1:].flatten(0, 1), features)
        batch = {"actions": actions.flatten(0, 1)}
        batch |= tree_columns("features", before) | tree_columns("next_features", after)
        return self.bonus(batch).view(actions.shape[:2])

    def loss(self, batch: Batch) -> tuple[Tensor, Metrics]:
        """Return the loss of the trained networks, a mean over rows, and what to report.

        The bonuses that it comes upon, those of `bonus`, it leaves in the batch's column `BONUS`.
        """
        raise NotImplementedError(f"{type(self).__name__} trains nothing")


_DEFAULTS = {"fcnet_hiddens": [64], "fcnet_activation": "relu"}


def feature_network(
    spec: FeatureSpec, settings: ExplorationConfig, num_outputs: int | None = None
) -> nn.Sequential:
    """Return an encoder with a linear layer behind it, from features to `[…, num_outputs]`.

    Args:
        spec: What it sees.
        settings: The `exploration_config`, of which `feature_net_config` is the encoder.
        num_outputs: None: `feature_dim`.
    """
    given = settings.feature_net_config
    defaults = {} if given.get("custom_model") is not None else _DEFAULTS
    width = settings.feature_dim if num_outputs is None else num_outputs
    return network(spec, ModelConfig.of({**defaults, **given}), width)
