"""A distribution with its inputs, as users of the reference know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.distributions.base import Distribution
from trainables.core.errors import ConfigError


class BoundDistribution:
    """A distribution with its inputs, as the reference's `policy.dist_class(logits)` gives it."""

    def __init__(self, distribution: Distribution, inputs: Tensor):
        self.distribution, self.inputs = distribution, inputs

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw actions."""
        return self.distribution.sample(self.inputs, generator)

    def deterministic_sample(self) -> Tensor:
        """Return the most likely actions."""
        return self.distribution.mode(self.inputs)

    def logp(self, actions: Any) -> Tensor:
        """Return the log-probabilities of actions, `[...]` of the rows.

        Args:
            actions: An action for each row, or one for all of them: a tensor, array or list.

        Raises:
            ConfigError: if their shape is another one.
        """
        return self.distribution.logp(self.inputs, self._as_rows(actions))

    def _as_rows(self, actions: Any) -> Tensor:
        """Return actions as a tensor `[..., *action_shape]` beside the inputs."""
        if not isinstance(actions, Tensor):
            actions = torch.as_tensor(np.asarray(actions))
        actions = actions.to(self.inputs.device, self.distribution.action_dtype)
        shape = (*self.inputs.shape[:-1], *self.distribution.action_shape)
        try:
            return torch.broadcast_to(actions, shape)
        except RuntimeError:
            raise ConfigError(
                f"actions of shape {tuple(actions.shape)} are not allowed; allowed: {shape}, one "
                f"for each row, or {self.distribution.action_shape}"
            ) from None

    def entropy(self) -> Tensor:
        """Return the entropies in nats."""
        return self.distribution.entropy(self.inputs)

    def kl(self, other: BoundDistribution) -> Tensor:
        """Return the KL divergence to another distribution of the same kind, in nats."""
        return self.distribution.kl(self.inputs, other.inputs)
