"""Networks of implicit Q-learning: a policy, Q-functions, and a state value of their own layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import Features, FeatureSpec
from trainables.core.distributions.base import Distribution
from trainables.core.networks.encoders import network
from trainables.core.networks.modules import PolicyValueModule
from trainables.core.networks.soft_actor_critic import PolicyQModule


class ImplicitQ(PolicyQModule, PolicyValueModule):
    """Policy, Q-functions and state values (Kostrikov et al., 2021, arXiv 2110.06169).

    Args:
        spec: See `PolicyQModule`; so are the next three.
        distribution: See `spec`.
        model: See `spec`.
        generator: See `spec`.
        q_model: The model of the Q-functions and of the state value if it is another one.
        options: The other keywords of `PolicyQModule`.

    Attributes:
        state_value: From features to V(s), `[..., 1]`.
    """

    learned_by = "implicit Q-learning"

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
        *,
        q_model: ModelConfig | Mapping[str, Any] | None = None,
        **options: Any,
    ):
        super().__init__(spec, distribution, model, generator, q_model=q_model, **options)
        settings = ModelConfig.of(model if q_model is None else q_model)
        self.state_value = network(spec, settings, 1, generator=generator)

    def value(self, features: Features) -> Tensor:
        values: Tensor = self.state_value(features)
        return values.squeeze(-1)
