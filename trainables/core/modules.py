"""What a policy needs of its networks, and the actor-critic of on-policy algorithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import gymnasium as gym
import torch
from torch import Tensor, nn

from trainables.core.distributions import (
    LOG_STD_MIN,
    DiagGaussian,
    Distribution,
    SquashedGaussian,
    distribution_for,
)
from trainables.core.model_config import ModelConfig
from trainables.core.networks import mlp
from trainables.core.settings import ConfigError


class ModuleOutput(NamedTuple):
    """What a module says of observations.

    Attributes:
        dist_inputs: Parameters of the action distribution, `[B, num_inputs]`.
        values: V(obs), `[B]`.
    """

    dist_inputs: Tensor
    values: Tensor


class PolicyModule(nn.Module, ABC):
    """Networks that a `Policy` acts with.

    A subclass is made with `(num_features, distribution, model, generator, **options)`: the width
    of the preprocessed observation, the distribution of the actions, the `model` dict of the
    config, the random stream of the initial weights, and options of its own.
    """

    is_noisy = False  # whether its parameters are perturbed to explore

    @classmethod
    @abstractmethod
    def distribution_of(
        cls, space: gym.Space, model: dict[str, Any], **options: Any
    ) -> Distribution:
        """The distribution over an action space that the outputs parametrise.

        Raises:
            ConfigError: if the space is not supported.
        """

    @abstractmethod
    def dist_inputs(self, features: Tensor) -> Tensor:
        """Distribution inputs of features `[..., num_features]`: all that acting needs."""

    @abstractmethod
    def value(self, features: Tensor) -> Tensor:
        """State values, `[...]`."""

    def forward(self, features: Tensor) -> ModuleOutput:
        """Distribution inputs and values of features `[B, num_features]`."""
        return ModuleOutput(self.dist_inputs(features), self.value(features))

    def set_noise(self, generator: torch.Generator | None) -> None:
        """Draw new noise for the parameters, or None: act without. For noisy modules only."""


class ActorCritic(PolicyModule):
    """MLP policy and value function, with separate or shared hidden layers."""

    def __init__(
        self,
        num_features: int,
        distribution: Distribution,
        model: dict[str, Any],
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        settings = ModelConfig(**ModelConfig.check(model))
        hiddens, activation = settings.fcnet_hiddens, settings.fcnet_activation
        init: dict[str, Any] = {
            "initializer": settings.fcnet_initializer,
            "generator": generator,
        }
        last = hiddens[-1] if hiddens else num_features
        is_gaussian = isinstance(distribution, DiagGaussian)
        is_squashed = isinstance(distribution, SquashedGaussian)
        if is_squashed and settings.initial_log_std < LOG_STD_MIN:
            raise ConfigError(
                f"model: initial_log_std = {settings.initial_log_std:g} is not allowed; allowed "
                f"with squash_actions: at least {LOG_STD_MIN:g}, where log sigma is clamped"
            )
        self._free_log_std = is_gaussian and settings.free_log_std
        num_outputs = distribution.num_inputs // (2 if self._free_log_std else 1)

        self.encoder = mlp(num_features, hiddens, activation, **init)
        self.policy_head = mlp(
            last, [], activation, num_outputs=num_outputs, output_gain=0.01, **init
        )
        if is_gaussian and not self._free_log_std:
            with torch.no_grad():  # the second half of the outputs is log sigma
                bias = self.policy_head.get_parameter("0.bias")
                bias[num_outputs // 2 :] += settings.initial_log_std
        if self._free_log_std:
            self.log_std = nn.Parameter(torch.full((num_outputs,), settings.initial_log_std))
        self._shares_layers = settings.vf_share_layers
        if not self._shares_layers:
            self.value_encoder = mlp(num_features, hiddens, activation, **init)
        self.value_head = mlp(last, [], activation, num_outputs=1, output_gain=1.0, **init)

    @classmethod
    def distribution_of(
        cls, space: gym.Space, model: dict[str, Any], **options: Any
    ) -> Distribution:
        return distribution_for(space, squash=bool(model.get("squash_actions", False)))

    def forward(self, features: Tensor) -> ModuleOutput:
        hidden = self.encoder(features)
        value_hidden = hidden if self._shares_layers else self.value_encoder(features)
        return ModuleOutput(self._dist_inputs(hidden), self.value_head(value_hidden).squeeze(-1))

    def dist_inputs(self, features: Tensor) -> Tensor:
        return self._dist_inputs(self.encoder(features))

    def value(self, features: Tensor) -> Tensor:
        encoder = self.encoder if self._shares_layers else self.value_encoder
        return self.value_head(encoder(features)).squeeze(-1)

    def _dist_inputs(self, hidden: Tensor) -> Tensor:
        outputs = self.policy_head(hidden)
        if not self._free_log_std:
            return outputs
        return torch.cat([outputs, self.log_std.expand_as(outputs)], -1)
