"""Memory of a recurrent network: its state, and the trunk that has one behind an encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import PREV_ACTION, PREV_REWARD, Features, FeatureSpec
from trainables.core.features import feature
from trainables.core.networks.encoders import Encoder, make_encoder

State = dict[str, Tensor]
"""`[B, ...]` by name. Every episode begins with zeros; {} is the state of a feed-forward module."""

AnyState = Mapping[str, Any] | list[Any] | tuple[Any, ...] | None
"""A recurrent state as users give it: by name, or its parts in the order of these; None begins an
episode."""


def reset_state(state: State, is_first: np.ndarray | Tensor) -> State:
    """Return the state with zeros in the slots that begin an episode.

    Args:
        state: The state of each slot, `[N, ...]` by name.
        is_first: Whether a slot begins an episode, `[N]`, bool.
    """
    first = torch.as_tensor(is_first)
    if not state or not first.any():
        return state
    return {
        name: part.masked_fill(first.to(part.device).view(-1, *[1] * (part.dim() - 1)), 0)
        for name, part in state.items()
    }


def state_arrays(state: State) -> dict[str, np.ndarray]:
    """Return copies of a state's parts as arrays, on the CPU."""
    return {name: part.cpu().numpy().copy() for name, part in state.items()}


def stacked_states(states: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return S states as one, `[S, N, ...]` by name."""
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


class Memory(nn.Module, ABC):
    """A network from sequences `[L, B, num_inputs]` to `[L, B, width]`, of one row or many.

    Attributes:
        width: Width of the output.
    """

    width: int

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start: zeros, `[batch_size, …]` by name."""

    @abstractmethod
    def forward(
        self, x: Tensor, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Run over sequences.

        Args:
            x: The inputs, `[L, B, num_inputs]`.
            state: The state before the first row, `[B, …]` by name.
            is_first: Whether a row begins an episode, `[L, B]` bool: the state is reset before it.
            ends_unseen: Whether outputs of the rows before those that begin an episode may be
                anything, as nobody looks at them. It saves time.

        Returns:
            Outputs `[L, B, width]`, and the state after the last row.
        """


class Trunk(nn.Module):
    """An encoder with a memory, which also sees the previous action and reward if they are given.

    Args:
        spec: The features' description.
        settings: The model's settings.
        generator: Random stream of the initial weights.

    Attributes:
        width: Width of the output.
        state_names: Names of the tensors in its state.
    """

    def __init__(
        self, spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None = None
    ):
        super().__init__()
        self.encoder = make_encoder(spec, settings, generator)
        self._previous = [PREV_ACTION] if spec.num_prev_action else []
        self._previous += [PREV_REWARD] if spec.has_prev_reward else []
        num_inputs = self.encoder.width + spec.num_prev_action + spec.has_prev_reward
        self.memory: Memory = feature("networks").memory(num_inputs, settings, generator)
        self.width = self.memory.width
        self.state_names = tuple(self.memory.initial_state(0))

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start, `[batch_size, …]`."""
        return self.memory.initial_state(batch_size)

    def unroll(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Return outputs `[L, B, width]` of features `[L, B, …]`, and the next state."""
        parts = [self.encoder(features)]
        if self._previous:
            assert isinstance(features, dict)
            parts += [features[name] for name in self._previous]
        x = torch.cat(parts, -1) if self._previous else parts[0]
        return self.memory(x, state, is_first, ends_unseen)

    def forward(self, features: Features) -> Tensor:
        raise TypeError("a network with memory sees sequences: call unroll")


def make_trunk(
    spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None = None
) -> Encoder | Trunk:
    """Return an encoder, with a memory behind it if the settings ask for one."""
    make = make_encoder if settings.memory is None else Trunk
    return make(spec, settings, generator)
