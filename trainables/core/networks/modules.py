"""The interface of what acts, and the actor-critic of on-policy algorithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import (
    Features,
    FeatureSpec,
    acting_features,
    action_mask_of,
    map_tensors,
)
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for, is_squashed
from trainables.core.distributions.gaussian import LOG_STD_MIN
from trainables.core.errors import ConfigError
from trainables.core.networks.layers import Layers, linear_layer
from trainables.core.networks.memory import State, Trunk, make_trunk


class ModuleOutput(NamedTuple):
    """Outputs of a module that learns state values.

    Attributes:
        dist_inputs: Parameters of the action distribution, `[..., num_inputs]`.
        values: State values V(obs), `[...]`.
    """

    dist_inputs: Tensor
    values: Tensor


class PolicyModule(nn.Module, ABC):
    """Networks that a `Policy` acts with, and what is learned from beside them.

    Acting needs `dist_inputs`, or with a memory `unroll_inputs`, and no more. What is only learned
    from is for a subclass to name: state values (`PolicyValueModule`), action values (`q_values`).

    A subclass is made with `(spec, distribution, model, generator, **options)`: what the features
    look like, the distribution of the actions, the `model` dict of the config, the random stream of
    the initial weights, and options of its own.

    With a memory (`is_recurrent`) it sees sequences, by `unroll`; the methods that take features
    alone raise.
    """

    # Options that are models of their own: dicts of what differs from `model`.
    other_models: ClassVar[frozenset[str]] = frozenset()
    is_noisy = False  # whether its parameters are perturbed to explore
    is_recurrent = False  # whether it has a memory
    has_policy_and_q = False  # whether it is a policy and Q-functions, and perhaps more

    @classmethod
    @abstractmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        """Return the distribution over an action space that the outputs parametrise.

        Raises:
            ConfigError: if the space is not supported.
        """

    @abstractmethod
    def dist_inputs(self, features: Features) -> Tensor:
        """Return distribution inputs of features `[..., …]`: all that acting needs."""

    def forward(self, features: Features) -> Any:
        """Return what the networks say of features `[..., …]`: `dist_inputs`, or more of it."""
        return self.dist_inputs(features)

    def initial_state(self, batch_size: int) -> State:
        """Return the recurrent state at an episode's start: zeros, `[batch_size, …]` by name."""
        return {}

    def unroll_inputs(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Run over sequences; without a memory, over rows of which each is by itself.

        Args:
            features: The features of each row, `[L, B, …]`.
            state: The state before the first row, `[B, …]` by name.
            is_first: Whether a row begins an episode, `[L, B]` bool: the state is reset before it.
            ends_unseen: Whether outputs of the rows before those that begin an episode may be
                anything, as nobody looks at them. It saves time.

        Returns:
            Distribution inputs `[L, B, …]`, and the state after the last row.
        """
        return self.dist_inputs(features), {}

    def encoders(self) -> dict[str, nn.Module]:
        """Return what heads stand on, by name: policies may have it in common (`shared_encoders`).

        Empty where the network is not of encoders and heads.
        """
        return {}

    def set_noise(self, generator: torch.Generator | None) -> None:
        """Draw new noise for the parameters, or None: act without. For noisy modules only."""

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that `dist_inputs` depends on; others may be among them."""
        return self.parameters()


class PolicyValueModule(PolicyModule):
    """A policy, and state values that only learning looks at."""

    @abstractmethod
    def value(self, features: Features) -> Tensor:
        """Return state values, `[...]`."""

    def forward(self, features: Features) -> ModuleOutput:
        return ModuleOutput(self.dist_inputs(features), self.value(features))

    def unroll(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[ModuleOutput, State]:
        """Return distribution inputs and values of sequences; see `unroll_inputs`."""
        return self(features), {}

    def unroll_inputs(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        output, after = self.unroll(features, state, is_first, ends_unseen)
        return output.dist_inputs, after


class ActorCritic(PolicyValueModule):
    """Policy and value function, with separate or shared hidden layers and memories.

    Of observations with a part that only the value function sees, see `FeatureSpec.num_critic`, its
    layers are separate, and the policy's are those of the rest.
    """

    _order: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        settings = ModelConfig.of(model)
        check_mask(spec, distribution)
        self._distribution = distribution
        if settings.initial_log_std < LOG_STD_MIN and is_squashed(distribution):
            raise ConfigError(
                f"model: initial_log_std = {settings.initial_log_std:g} is not allowed; allowed "
                f"with squash_actions: at least {LOG_STD_MIN:g}, where log sigma is clamped"
            )
        log_stds = list(distribution.log_std_inputs)
        self._free_log_std = bool(log_stds) and settings.free_log_std
        num_outputs = distribution.num_inputs - (len(log_stds) if self._free_log_std else 0)

        self._spec = spec
        if spec.has_critic_part and settings.vf_share_layers:
            raise ConfigError(
                "model: vf_share_layers = True is not possible where only the value function sees "
                "a part of the observation: what acts would see it, too; allowed: False"
            )
        self.encoder = make_trunk(spec.for_acting(), settings, generator)
        self.is_recurrent = isinstance(self.encoder, Trunk)

        def head(width: int, gain: float) -> Layers:
            initializer = settings.fcnet_initializer
            return Layers(linear_layer(self.encoder.width, width, gain, initializer, generator))

        self.policy_head = head(num_outputs, 0.01)
        if self._free_log_std:
            self.log_std = nn.Parameter(torch.full((len(log_stds),), settings.initial_log_std))
            # Of every input: its place among the head's outputs with log sigma behind them.
            outputs = [i for i in range(distribution.num_inputs) if i not in set(log_stds)]
            order = np.argsort(outputs + log_stds)
            self.register_buffer("_order", torch.from_numpy(order), persistent=False)
            self._is_in_order = bool((order == np.arange(len(order))).all())
        elif log_stds:
            with torch.no_grad():
                self.policy_head.get_parameter("0.bias")[log_stds] += settings.initial_log_std
        self._shares_layers = settings.vf_share_layers
        if not self._shares_layers:
            self.value_encoder = make_trunk(spec, settings, generator)
        self.value_head = head(1, 1.0)

    @classmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        return distribution_for(space, squash=model.squash_actions)

    def forward(self, features: Features) -> ModuleOutput:
        hidden = self.encoder(acting_features(features, self._spec))
        value_hidden = hidden if self._shares_layers else self.value_encoder(features)
        return self._output(hidden, value_hidden, features)

    def dist_inputs(self, features: Features) -> Tensor:
        return self.inputs_of(self.encoder(acting_features(features, self._spec)), features)

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        for name, parameter in self.named_parameters():
            if name.partition(".")[0] not in ("value_encoder", "value_head"):
                yield parameter

    def encoders(self) -> dict[str, nn.Module]:
        apart = {} if self._shares_layers else {"value_encoder": self.value_encoder}
        return {"encoder": self.encoder, **apart}

    def value(self, features: Features) -> Tensor:
        encoder = self.encoder if self._shares_layers else self.value_encoder
        return self.value_head(encoder(features)).squeeze(-1)

    def initial_state(self, batch_size: int) -> State:
        return {
            f"{prefix}{name}": value
            for prefix, trunk in self._memories()
            for name, value in trunk.initial_state(batch_size).items()
        }

    def unroll(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[ModuleOutput, State]:
        if not self.is_recurrent:
            return self(features), {}
        hidden: list[Tensor] = []
        after: State = {}
        for prefix, trunk in self._memories():
            seen = acting_features(features, self._spec) if trunk is self.encoder else features
            own = {name: state[f"{prefix}{name}"] for name in trunk.state_names}
            outputs, own = trunk.unroll(seen, own, is_first, ends_unseen)
            hidden.append(outputs)
            after |= {f"{prefix}{name}": value for name, value in own.items()}
        return self._output(hidden[0], hidden[-1], features), after

    def _memories(self) -> list[tuple[str, Trunk]]:
        """Return the trunks with a memory, and the prefix of the names of their state."""
        if not isinstance(self.encoder, Trunk):
            return []
        if self._shares_layers:
            return [("", self.encoder)]
        assert isinstance(self.value_encoder, Trunk)
        return [("policy.", self.encoder), ("value.", self.value_encoder)]

    def _output(self, hidden: Tensor, value_hidden: Tensor, features: Features) -> ModuleOutput:
        values = self.value_head(value_hidden).squeeze(-1)
        return ModuleOutput(self.inputs_of(hidden, features), values)

    def inputs_of(self, hidden: Tensor, features: Features) -> Tensor:
        """Return distribution inputs `[..., num_inputs]` of what the trunk made of features.

        A subclass that computes them otherwise, e.g. of vectors that describe the actions, passes
        its own through `masked`.
        """
        outputs = self.policy_head(hidden)
        if self._free_log_std:
            log_std = self.log_std.expand(*outputs.shape[:-1], -1)
            outputs = torch.cat([outputs, log_std], -1)
            if not self._is_in_order:
                outputs = outputs[..., self._order]
        return self.masked(outputs, features)

    def masked(self, inputs: Tensor, features: Features) -> Tensor:
        """Return distribution inputs that give probability only to actions that the mask allows."""
        mask = action_mask_of(features)
        return inputs if mask is None else self._distribution.mask(inputs, mask)


def unroll_row(
    unroll: Callable[[Features, State, Tensor], tuple[Any, State]], features: Features, state: State
) -> tuple[Any, State]:
    """Run a network with a memory over sequences of one row, as acting does.

    Args:
        unroll: The network's own `unroll`, see `PolicyModule`.
        features: The features of the row, `[B, …]`.
        state: The state before it, `[B, …]` by name.

    Returns:
        The outputs `[1, B, …]`, and the state after the row.
    """
    sequence = map_tensors(lambda part: part.unsqueeze(0), features)
    part = next(iter(state.values()))
    # `shape[0]`, not `len`, which an exported program would fix.
    is_first = torch.zeros(1, part.shape[0], dtype=torch.bool, device=part.device)
    return unroll(sequence, state, is_first)


def with_values(module: nn.Module) -> PolicyValueModule:
    """Return a module that learns state values, as the one that it is.

    Raises:
        ConfigError: if it is another.
    """
    if not isinstance(module, PolicyValueModule):
        instead = "; its q_values are of actions" if hasattr(module, "q_values") else ""
        raise ConfigError(f"{type(module).__name__} learns no state values{instead}")
    return module


def check_mask(spec: FeatureSpec, distribution: Distribution) -> None:
    """Refuse an action mask that is not of the actions.

    Raises:
        ConfigError: naming what a mask of these actions has.
    """
    if spec.num_mask and spec.num_mask != distribution.num_mask:
        allowed = f"{distribution.num_mask} of the actions" if distribution.num_mask else "no mask"
        raise ConfigError(f"the action mask has {spec.num_mask} entries; allowed: {allowed}")
