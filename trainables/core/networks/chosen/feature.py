"""What `model` asks for beside hidden layers: images, memories, a user's own module."""

from __future__ import annotations

import torch

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import FeatureSpec
from trainables.core.features import Feature
from trainables.core.networks.chosen.attention import GatedTransformer
from trainables.core.networks.chosen.custom import CustomEncoder, custom_encoder
from trainables.core.networks.chosen.images import ImagesEncoder
from trainables.core.networks.chosen.recurrent import RecurrentMemory
from trainables.core.networks.memory import Memory


class ChosenNetworks(Feature):
    """Makes networks that most models do without."""

    def images(
        self, spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None
    ) -> ImagesEncoder:
        """Return convolutions and hidden layers for a specification with images."""
        return ImagesEncoder(spec, settings, generator)

    def custom(
        self, spec: FeatureSpec, settings: ModelConfig, generator: torch.Generator | None
    ) -> CustomEncoder:
        """Return the `custom_model` of the settings in the place of an encoder."""
        return custom_encoder(spec, settings, generator)

    def memory(
        self, num_inputs: int, settings: ModelConfig, generator: torch.Generator | None
    ) -> Memory:
        """Return the memory that the settings ask for.

        Args:
            num_inputs: The width of its inputs.
            settings: The model's settings.
            generator: Random stream of the initial weights.
        """
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


FEATURE = ChosenNetworks()
