"""Networks of soft actor-critic: a policy, one or two Q-functions, and the temperature."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.distributions import Categorical, Distribution, SquashedGaussian
from trainables.core.model_config import ModelConfig
from trainables.core.modules import PolicyModule
from trainables.core.networks import frozen, mlp
from trainables.core.settings import ConfigError


class QFunctions(nn.Module):
    """Independent Q-functions: of (s, a) for continuous actions, of s for all discrete ones.

    Args:
        num_functions: E, two against overestimation (twin Q).
        num_inputs: Width of the input: features, and the action if it is continuous.
        num_outputs: 1, or the number of discrete actions.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_functions: int,
        num_inputs: int,
        num_outputs: int,
        model: dict[str, Any],
        generator: torch.Generator | None,
    ):
        super().__init__()
        settings = ModelConfig(**ModelConfig.check(model))
        self.functions = nn.ModuleList(
            mlp(
                num_inputs,
                settings.fcnet_hiddens,
                settings.fcnet_activation,
                num_outputs=num_outputs,
                initializer=settings.fcnet_initializer,
                generator=generator,
            )
            for _ in range(num_functions)
        )

    def forward(
        self, features: Tensor, actions: Tensor | None = None, *, freeze: bool = False
    ) -> Tensor:
        """Values of every function, `[E, B, num_outputs]`.

        Args:
            features: `[B, num_features]`.
            actions: In (-1, 1), `[B, d]`, or None if they are discrete.
            freeze: Gradients flow to the actions, but not to the parameters.
        """
        x = features if actions is None else torch.cat([features, actions], -1)
        return torch.stack([frozen(f, x) if freeze else f(x) for f in self.functions])  # type: ignore[arg-type]


class SoftActorCritic(PolicyModule):
    """Policy, Q-functions and log alpha (Haarnoja et al., 2018; discrete: Christodoulou, 2019).

    Args:
        num_features: Width of the preprocessed observation.
        distribution: A squashed Gaussian, or a categorical one.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
        twin_q: Two Q-functions, of which the lesser value counts.
        q_model: What differs from `model` in the Q-functions.
        policy_model: What differs from `model` in the policy.
        initial_alpha: Weight of the entropy at the start.

    Attributes:
        actor: Features to distribution inputs.
        critic: `QFunctions`.
        log_alpha: Logarithm of the entropy's weight, `[1]`.
        is_discrete: Whether the actions are.
    """

    def __init__(
        self,
        num_features: int,
        distribution: Distribution,
        model: dict[str, Any],
        generator: torch.Generator | None = None,
        *,
        twin_q: bool = True,
        q_model: dict[str, Any] | None = None,
        policy_model: dict[str, Any] | None = None,
        initial_alpha: float = 1.0,
    ):
        super().__init__()
        policy_settings = {**model, **(policy_model or {})}
        settings = ModelConfig(**ModelConfig.check(policy_settings))
        self.is_discrete = isinstance(distribution, Categorical)
        self._distribution = distribution
        self.actor = mlp(
            num_features,
            settings.fcnet_hiddens,
            settings.fcnet_activation,
            num_outputs=distribution.num_inputs,
            output_gain=0.01,
            initializer=settings.fcnet_initializer,
            generator=generator,
        )
        num_dimensions = math.prod(distribution.action_shape)
        if not self.is_discrete:
            with torch.no_grad():  # the second half of the outputs is log sigma
                last = self.actor[-1]
                assert isinstance(last, nn.Linear)
                last.bias[num_dimensions:] += settings.initial_log_std
        self.critic = QFunctions(
            2 if twin_q else 1,
            num_features + (0 if self.is_discrete else num_dimensions),
            distribution.num_inputs if self.is_discrete else 1,
            {**model, **(q_model or {})},
            generator,
        )
        self.log_alpha = nn.Parameter(torch.full((1,), math.log(initial_alpha)))

    @classmethod
    def distribution_of(
        cls, space: gym.Space, model: dict[str, Any], **options: Any
    ) -> Distribution:
        if isinstance(space, gym.spaces.Discrete):
            return Categorical(int(space.n))
        if (
            isinstance(space, gym.spaces.Box)
            and np.issubdtype(space.dtype, np.floating)
            and np.isfinite([space.low, space.high]).all()
        ):
            return SquashedGaussian(space.shape)
        raise ConfigError(
            f"action space {space} is not supported by soft actor-critic; supported: Discrete, "
            "Box of floats with bounds"
        )

    def dist_inputs(self, features: Tensor) -> Tensor:
        return self.actor(features)

    def value(self, features: Tensor) -> Tensor:
        """The lesser Q: its mean under the policy if actions are discrete, else of its mode."""
        inputs = self.actor(features)
        if self.is_discrete:
            return (inputs.softmax(-1) * self.critic(features).amin(0)).sum(-1)
        mode = self._distribution.mode(inputs).tanh().reshape(*inputs.shape[:-1], -1)
        return self.critic(features, mode).amin(0).squeeze(-1)
