"""Action values of a discrete action space, with the extensions of Rainbow (arXiv 1710.02298)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from trainables.core.distributions import Distribution
from trainables.core.exploration import EpsilonGreedy
from trainables.core.model_config import ModelConfig
from trainables.core.modules import ModuleOutput, PolicyModule
from trainables.core.networks import activation_layer, linear_layer, mlp
from trainables.core.noisy import NoisyLinear
from trainables.core.settings import ConfigError


class QNetwork(PolicyModule):
    """Q(s, .), or the distribution of each return over fixed atoms (Bellemare et al., 2017).

    Args:
        num_features: Width of the preprocessed observation.
        distribution: `EpsilonGreedy`.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
        dueling: A value and an advantage head, `Q = V + A - mean A` (Wang et al., 2016).
        hiddens: Widths of the hidden layers of each head.
        noisy: The heads' layers are noisy (Fortunato et al., 2018).
        sigma0: Initial noise, see `NoisyLinear`.
        num_atoms: Atoms of the return's distribution; 1 learns its mean alone.
        v_min: Lowest atom.
        v_max: Highest atom.
        temperature: See `EpsilonGreedy`.

    Attributes:
        atoms: Returns, `[num_atoms]`.
    """

    atoms: Tensor

    def __init__(
        self,
        num_features: int,
        distribution: Distribution,
        model: dict[str, Any],
        generator: torch.Generator | None = None,
        *,
        dueling: bool = False,
        hiddens: Sequence[int] = (),
        noisy: bool = False,
        sigma0: float = 0.5,
        num_atoms: int = 1,
        v_min: float = -10.0,
        v_max: float = 10.0,
        temperature: float = 0.0,
    ):
        super().__init__()
        settings = ModelConfig(**ModelConfig.check(model))
        encoder, activation = settings.fcnet_hiddens, settings.fcnet_activation
        initializer = settings.fcnet_initializer
        self.num_actions, self.num_atoms, self.is_noisy = distribution.num_inputs, num_atoms, noisy
        self.encoder = mlp(
            num_features, encoder, activation, initializer=initializer, generator=generator
        )
        if noisy:
            layer: Any = partial(NoisyLinear, sigma0=sigma0, generator=generator)
        else:
            layer = partial(linear_layer, initializer=initializer, generator=generator)

        def head(num_outputs: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            width = encoder[-1] if encoder else num_features
            for hidden in hiddens:
                layers += [layer(width, hidden), activation_layer(activation)]
                width = hidden
            return nn.Sequential(*layers, layer(width, num_outputs))

        self.advantage = head(self.num_actions * num_atoms)
        self.state_value = head(num_atoms) if dueling else None
        self.register_buffer("atoms", torch.linspace(v_min, v_max, num_atoms), persistent=False)
        self._noisy_layers = [m for m in self.modules() if isinstance(m, NoisyLinear)]

    @classmethod
    def distribution_of(
        cls, space: gym.Space, model: dict[str, Any], **options: Any
    ) -> Distribution:
        if not isinstance(space, gym.spaces.Discrete):
            raise ConfigError(
                f"action space {space} is not supported by Q-learning; supported: Discrete"
            )
        return EpsilonGreedy(int(space.n), options.get("temperature", 0.0))

    def logits(self, features: Tensor) -> Tensor:
        """`[B, A, num_atoms]`: of the return's distribution, or Q itself if there is one atom."""
        hidden = self.encoder(features)
        shape = (*features.shape[:-1], -1, self.num_atoms)
        advantage = self.advantage(hidden).view(shape)
        if self.state_value is None:
            return advantage
        value = self.state_value(hidden).view(shape)
        return value + advantage - advantage.mean(-2, keepdim=True)

    def expected(self, logits: Tensor) -> Tensor:
        """Q of `logits`, `[..., A]`."""
        if self.num_atoms == 1:
            return logits.squeeze(-1)
        return logits.softmax(-1) @ self.atoms

    def dist_inputs(self, features: Tensor) -> Tensor:
        return self.expected(self.logits(features))

    def value(self, features: Tensor) -> Tensor:
        """max_a Q(s, a), `[...]`."""
        return self.dist_inputs(features).amax(-1)

    def forward(self, features: Tensor) -> ModuleOutput:
        q_values = self.dist_inputs(features)
        return ModuleOutput(q_values, q_values.amax(-1))

    def set_noise(self, generator: torch.Generator | None) -> None:
        for noisy in self._noisy_layers:
            noisy.set_noise(generator)
