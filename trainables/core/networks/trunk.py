"""The trunk of a network: an encoder, and a memory behind it if the settings ask for one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import PREV_ACTION, PREV_REWARD, Features, FeatureSpec
from trainables.core.networks.chosen.attention import GatedTransformer
from trainables.core.networks.chosen.recurrent import Memory, RecurrentMemory
from trainables.core.networks.encoders import Encoder, make_encoder
from trainables.core.networks.memory import State


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
        self.memory = _make_memory(num_inputs, settings, generator)
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


def _make_memory(
    num_inputs: int, settings: ModelConfig, generator: torch.Generator | None
) -> Memory:
    if settings.use_attention:
        return GatedTransformer(
            num_inputs,
            settings.attention_dim,
            num_layers=settings.attention_num_transformer_units,
            num_heads=settings.attention_num_heads,
            head_dim=settings.attention_head_dim,
            memory_length=settings.attention_memory_inference,
            mlp_width=settings.attention_position_wise_mlp_dim,
            gate_bias=settings.attention_init_gru_gate_bias,
            initializer=settings.fcnet_initializer,
            generator=generator,
        )
    return RecurrentMemory(
        num_inputs,
        settings.lstm_cell_size,
        is_gru=settings.use_gru,
        initializer=settings.fcnet_initializer,
        generator=generator,
    )
