"""All networks of DreamerV3 as one module, which acts by what it believes of the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import PREV_ACTION, Features, FeatureSpec, action_mask_of
from trainables.core.data.spaces import PLAIN, leaf_spaces
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for, is_float_box
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import State
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule, check_mask
from trainables.core.networks.world_model.actor import ActorHead
from trainables.core.networks.world_model.decoder import Decoder
from trainables.core.networks.world_model.encoder import TokenEncoder
from trainables.core.networks.world_model.latents import packed, unpacked
from trainables.core.networks.world_model.layers import mlp
from trainables.core.networks.world_model.rssm import RSSM, Latent
from trainables.core.networks.world_model.sizes import ModelSize
from trainables.core.networks.world_model.two_hot import TwoHotHead

_SEQUENCES = "a world model sees sequences: call unroll"


class Dreamer(PolicyValueModule):
    """World model, actor and critic (Hafner et al., 2025, "Mastering diverse control tasks").

    Its state is the world model's: `h` `[B, deter]`, and the classes of z as bytes, `z` `[B, S]`;
    beside observations it sees the action that led to them. To explore it draws z and actions;
    without, both are the most likely ones.

    Args:
        spec: The features' description.
        distribution: Of the actions.
        model: The `model` of the config, of which it needs nothing.
        generator: Random stream of the initial weights.
        size: The widths of its layers by name, see `ModelSize`.

    Attributes:
        encoder: From features to tokens.
        rssm: The recurrent state-space model.
        decoder: From states back to features.
        reward: From states to the reward that led there.
        continuation: From states to the logit of whether the episode goes on, times gamma.
        actor: From states to inputs of the distribution.
        critic: From states to the return that is expected there.
        return_range: Moving percentiles of dreamed returns, 5% and 95%, `[2]`.
    """

    is_noisy = True
    is_recurrent = True
    return_range: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
        **size: int,
    ):
        super().__init__()
        check_mask(spec, distribution)
        self.size = widths = ModelSize(**size)
        units = [widths.units]
        num_states = widths.deter + widths.stoch * widths.classes
        self.encoder = TokenEncoder(spec, widths, generator)
        self.rssm = RSSM(self.encoder.width, distribution.num_encoded, widths, generator)
        self.decoder = Decoder(num_states, spec, widths, generator)
        self.reward = TwoHotHead(num_states, units, generator)
        self.continuation = mlp(num_states, units, 1, generator=generator)
        self.actor = ActorHead(num_states, distribution, widths, generator)
        self.critic = TwoHotHead(num_states, units * widths.layers, generator)
        self.register_buffer("return_range", torch.zeros(2))
        self._noise: torch.Generator | None = None

    @classmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        for path, leaf in leaf_spaces(space, "action space").items():
            if is_float_box(leaf) and not np.isfinite([leaf.low, leaf.high]).all():  # type: ignore[attr-defined]
                where = "" if path == PLAIN else f" at {path!r}"
                raise ConfigError(
                    f"action space {leaf}{where} is not supported by DreamerV3: means of its "
                    "Gaussians lie between the bounds of actions, and these are not finite"
                )
        return distribution_for(space)

    @property
    def world_model(self) -> list[nn.Module]:
        """The parts that predict, and that actor and critic do not move."""
        return [self.encoder, self.rssm, self.decoder, self.reward, self.continuation]

    def initial_state(self, batch_size: int) -> State:
        return self.stored(self.rssm.initial(batch_size))

    def stored(self, latents: Latent) -> State:
        """Return latents `[..., …]` as a state, which is what a replay buffer keeps."""
        return {"h": latents.h.detach(), "z": packed(latents.z)}

    def latents_of(self, state: Mapping[str, Tensor]) -> Latent:
        """Return what `stored` was given."""
        return Latent(state["h"], unpacked(state["z"], self.size.classes))

    def dist_inputs(self, features: Features) -> Tensor:
        raise TypeError(_SEQUENCES)

    def value(self, features: Features) -> Tensor:
        raise TypeError(_SEQUENCES)

    def unroll(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[ModuleOutput, State]:
        states, after = self._follow(features, state, is_first)
        inputs = self.actor(states, action_mask_of(features))
        return ModuleOutput(inputs, self.critic.mean(self.critic(states))), after

    def unroll_inputs(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        states, after = self._follow(features, state, is_first)
        return self.actor(states, action_mask_of(features)), after

    def _follow(self, features: Features, state: State, is_first: Tensor) -> tuple[Tensor, State]:
        """Return the world model's features of sequences, `[T, B, F]`, and its state after them."""
        assert isinstance(features, dict)
        tokens, noise = self.encoder(features), None
        if self._noise is not None:
            shape = (*tokens.shape[:2], self.size.stoch)
            noise = torch.rand(shape, generator=self._noise, device=tokens.device)
        latents, _ = self.rssm.follow(
            tokens, features[PREV_ACTION], is_first, self.latents_of(state), noise
        )
        return latents.features, self.stored(Latent(latents.h[-1], latents.z[-1]))

    def set_noise(self, generator: torch.Generator | None) -> None:
        """Draw z of each step from a stream from now on, or None: take the most likely classes."""
        self._noise = generator

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        return chain.from_iterable(
            part.parameters() for part in (self.encoder, self.rssm, self.actor)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_noise": None}  # a stream is its owner's
