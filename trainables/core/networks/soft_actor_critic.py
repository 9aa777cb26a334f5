"""Networks of soft actor-critic: a policy, one or two Q-functions, and the temperature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import (
    VECTOR,
    Features,
    FeatureSpec,
    action_mask_of,
    map_tensors,
)
from trainables.core.data.spaces import PLAIN, leaf_spaces
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for, is_float_box
from trainables.core.distributions.categorical import Categorical
from trainables.core.errors import ConfigError
from trainables.core.networks.encoders import network
from trainables.core.networks.layers import frozen
from trainables.core.networks.modules import PolicyModule, check_mask


class QFunctions(nn.Module):
    """Independent Q-functions: of (s, a) for continuous actions, of s for all discrete ones.

    Each has an encoder of its own; a continuous action enters with the vector part.

    Args:
        num_functions: Number of functions E, two against overestimation (twin Q).
        spec: The features' description.
        num_action_dims: Dimensions d of continuous actions; 0: they are discrete.
        num_outputs: Values of each function: 1, or one for each discrete action.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_functions: int,
        spec: FeatureSpec,
        num_action_dims: int,
        num_outputs: int,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None,
    ):
        super().__init__()
        settings = ModelConfig.of(model)
        inputs = replace(spec, num_features=spec.num_features + num_action_dims)
        self.functions = nn.ModuleList(
            network(inputs, settings, num_outputs, generator=generator)
            for _ in range(num_functions)
        )

    def forward(
        self, features: Features, actions: Tensor | None = None, *, freeze: bool = False
    ) -> Tensor:
        """Return the values of every function, `[E, B, num_outputs]`; of members `[K, E, B, …]`.

        Args:
            features: The features of each row, `[B, …]`.
            actions: Actions in (-1, 1), `[B, d]`, or None if they are discrete.
            freeze: Whether gradients flow to the actions, but not to the parameters.
        """
        x = features if actions is None else _with_actions(features, actions)
        values = [frozen(f, x) if freeze else f(x) for f in self.functions]  # type: ignore[arg-type]
        return torch.stack(values, -min(3, values[0].dim() + 1))

    def of_each(self, features: Features, actions: Tensor) -> Tensor:
        """Return the values of several actions in each state, `[E, B, M]`.

        An image is encoded once for all of them.

        Args:
            features: The features of each state, `[B, …]`.
            actions: Actions in (-1, 1), `[B, M, d]`.
        """
        repeated = map_tensors(partial(_repeated, times=actions.shape[1]), features)
        inputs = _with_actions(repeated, actions)
        values = [_of_each(function, features, inputs) for function in self.functions]
        return torch.stack(values).squeeze(-1)


def _repeated(part: Tensor, times: int) -> Tensor:
    """Return what is known of each state, `[B, …]`, once for each of its actions, `[B, M, …]`."""
    return part.unsqueeze(1).expand(-1, times, *part.shape[1:])


def _of_each(function: Any, features: Features, inputs: Features) -> Tensor:
    """Return what a function says of several inputs in each state, `[B, M, num_outputs]`.

    Args:
        function: One of `QFunctions`.
        features: Of each state, `[B, …]`.
        inputs: The same with an action, of each action, `[B, M, …]`.
    """
    if hasattr(function[0], "of_each"):  # it sees images
        assert isinstance(inputs, dict)
        encoder, output = function
        values: Tensor = output(encoder.of_each(features, inputs[VECTOR]))
    else:
        values = function(inputs)
    return values


def chosen(all_q: Tensor, actions: Tensor) -> Tensor:
    """Return the values `[E, B]` of actions `[B]` among those of all, `[E, B, A]`."""
    index = actions.unsqueeze(-2).expand(all_q.shape[:-1]).unsqueeze(-1)
    return all_q.gather(-1, index).squeeze(-1)


def _with_actions(features: Features, actions: Tensor) -> Features:
    if not isinstance(features, dict):
        return torch.cat([features, actions], -1)
    vector = [features[VECTOR]] if VECTOR in features else []
    return {**features, VECTOR: torch.cat([*vector, actions], -1)}


class PolicyQModule(PolicyModule):
    """A policy, and one or two Q-functions that share no layers with it.

    Args:
        spec: The features' description.
        distribution: A squashed Gaussian, or a categorical one.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
        twin_q: Whether there are two Q-functions, of which the lesser value counts.
        q_model: The model of the Q-functions if it is another one.
        policy_model: The model of the policy if it is another one.

    Attributes:
        actor: The policy, from features to distribution inputs.
        critic: The Q-functions.
        is_discrete: Whether the actions are discrete.
    """

    has_policy_and_q = True
    learned_by: ClassVar[str]
    other_models: ClassVar[frozenset[str]] = frozenset({"q_model", "policy_model"})

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
        *,
        twin_q: bool = True,
        q_model: ModelConfig | Mapping[str, Any] | None = None,
        policy_model: ModelConfig | Mapping[str, Any] | None = None,
    ):
        super().__init__()
        model = ModelConfig.of(model)
        settings = model if policy_model is None else ModelConfig.of(policy_model)
        check_mask(spec, distribution)
        self.is_discrete = isinstance(distribution, Categorical)
        if self.is_discrete and settings.initial_log_std:
            raise ConfigError(
                f"model setting initial_log_std = {settings.initial_log_std:g} has no effect on "
                f"{self.learned_by} with discrete actions"
            )
        self._distribution = distribution
        self.actor = network(spec, settings, distribution.num_inputs, 0.01, generator)
        num_dimensions = 0 if self.is_discrete else math.prod(distribution.action_shape)
        if not self.is_discrete:
            with torch.no_grad():  # the second half of the outputs is log sigma
                last = self.actor[-1]
                assert isinstance(last, nn.Linear)
                last.bias[num_dimensions:] += settings.initial_log_std
        self.critic = QFunctions(
            2 if twin_q else 1,
            spec,
            num_dimensions,
            distribution.num_inputs if self.is_discrete else 1,
            model if q_model is None else q_model,
            generator,
        )

    @classmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        if isinstance(space, gym.spaces.Discrete):
            return Categorical(int(space.n))
        for path, leaf in leaf_spaces(space, "action space").items():
            where = "" if path == PLAIN else f" at {path!r}"
            if not is_float_box(leaf):
                raise ConfigError(
                    f"action space {leaf}{where} is not supported by {cls.learned_by}: its "
                    "expectations are over one Discrete space, or over Boxes of floats alone; "
                    "supported: Discrete, Box of floats with bounds, and Dict and Tuple of such "
                    "Boxes; PPO takes every space"
                )
            if not np.isfinite([leaf.low, leaf.high]).all():  # type: ignore[attr-defined]
                raise ConfigError(
                    f"action space {leaf}{where} is not supported by {cls.learned_by}: actions "
                    "are squashed into bounds, and these are not finite"
                )
        return distribution_for(space, squash=True)

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        return self.actor.parameters()

    def dist_inputs(self, features: Features) -> Tensor:
        inputs = self.actor(features)
        mask = action_mask_of(features)
        return inputs if mask is None else self._distribution.mask(inputs, mask)

    def q_values(self, features: Features, actions: Tensor | None = None) -> Tensor:
        """Return the values of every Q-function, `[E, B, num_outputs]`; see `QFunctions`.

        Args:
            features: The features of each row, `[B, …]`.
            actions: Continuous actions in (-1, 1), `[B, d]`; None if they are discrete.
        """
        values: Tensor = self.critic(features, actions)
        return values


class SoftActorCritic(PolicyQModule):
    """Policy, Q-functions and log alpha (Haarnoja et al., 2018; discrete: Christodoulou, 2019).

    Args:
        spec: See `PolicyQModule`; so are the next three.
        distribution: See `spec`.
        model: See `spec`.
        generator: See `spec`.
        initial_alpha: Weight of the entropy at the start.
        options: The keywords of `PolicyQModule`.

    Attributes:
        log_alpha: Logarithm of the entropy's weight, `[1]`.
    """

    learned_by = "soft actor-critic"

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
        *,
        initial_alpha: float = 1.0,
        **options: Any,
    ):
        super().__init__(spec, distribution, model, generator, **options)
        self.log_alpha = nn.Parameter(torch.full((1,), math.log(initial_alpha)))
