"""Action values of a discrete action space, with the extensions of Rainbow (arXiv 1710.02298)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import Features, FeatureSpec, action_mask_of
from trainables.core.distributions.base import ILLEGAL, Distribution, legal_actions
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.errors import ConfigError
from trainables.core.networks.layers import Layers, activation_layer, linear_layer
from trainables.core.networks.memory import State, Trunk, make_trunk
from trainables.core.networks.modules import PolicyModule, check_mask


class QNetwork(PolicyModule):
    """Q(s, .), or the distribution of each return over fixed atoms (Bellemare et al., 2017).

    Args:
        spec: The features' description.
        distribution: `EpsilonGreedy`.
        model: The `model` dict of the config.
        generator: Random stream of the initial weights.
        dueling: Whether there are two heads, `Q = V + A - mean A` (Wang et al., 2016).
        hiddens: Widths of the hidden layers of each head.
        noisy: Whether the heads' layers are noisy (Fortunato et al., 2018).
        sigma0: Initial noise; see `NoisyLinear`.
        num_atoms: Number of atoms of the return's distribution; 1 learns its mean alone.
        v_min: Lowest atom.
        v_max: Highest atom.
        temperature: Temperature of the draw, 0 is greedy; see `EpsilonGreedy`.

    Attributes:
        atoms: Returns of the atoms, `[num_atoms]`.
    """

    atoms: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
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
        settings = ModelConfig.of(model)
        activation, initializer = settings.fcnet_activation, settings.fcnet_initializer
        check_mask(spec, distribution)
        self._is_masked = spec.num_mask > 0
        self.num_actions, self.num_atoms, self.is_noisy = distribution.num_inputs, num_atoms, noisy
        self.encoder = make_trunk(spec, settings, generator)
        self.is_recurrent = isinstance(self.encoder, Trunk)
        if noisy:
            layer: Any = partial(NoisyLinear, sigma0=sigma0, generator=generator)
        else:
            layer = partial(linear_layer, initializer=initializer, generator=generator)

        def head(num_outputs: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            width = self.encoder.width
            for hidden in hiddens:
                layers += [layer(width, hidden), activation_layer(activation)]
                width = hidden
            return Layers(*layers, layer(width, num_outputs))

        self.advantage = head(self.num_actions * num_atoms)
        self.state_value = head(num_atoms) if dueling else None
        self.register_buffer("atoms", torch.linspace(v_min, v_max, num_atoms), persistent=False)
        self._noisy_layers = [m for m in self.modules() if isinstance(m, NoisyLinear)]

    @classmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        if not isinstance(space, gym.spaces.Discrete):
            raise ConfigError(
                f"action space {space} is not supported by Q-learning, which compares the values "
                "of all actions; supported: Discrete; PPO takes every space, SAC Boxes of floats"
            )
        return EpsilonGreedy(int(space.n), options.get("temperature", 0.0))

    def logits(self, features: Features) -> Tensor:
        """Return logits of the return's distribution, or Q of one atom, `[..., A, num_atoms]`.

        Those of an action that the mask forbids are `ILLEGAL`.
        """
        return self.logits_of(self.encoder(features), features)

    def logits_of(self, hidden: Tensor, features: Features) -> Tensor:
        """Return `logits` of what the encoder made of features."""
        shape = (*hidden.shape[:-1], -1, self.num_atoms)
        advantage = self.advantage(hidden).view(shape)
        mask = action_mask_of(features)
        legal = None if mask is None else legal_actions(mask).unsqueeze(-1)  # [..., A, 1]
        if self.state_value is None:
            logits = advantage
        else:
            value = self.state_value(hidden).view(shape)
            logits = value + advantage - _mean_over_actions(advantage, legal)
        return logits if legal is None else logits.masked_fill(~legal, ILLEGAL)

    def expected(self, logits: Tensor) -> Tensor:
        """Return Q of `logits`, `[..., A]`; `ILLEGAL` where they are."""
        if self.num_atoms == 1:
            return logits.squeeze(-1)
        q_values = logits.softmax(-1) @ self.atoms
        if not self._is_masked:
            return q_values
        return q_values.masked_fill(logits[..., 0] == ILLEGAL, ILLEGAL)

    def q_values(self, features: Features) -> Tensor:
        """Return Q(s, .), `[..., A]`; `ILLEGAL` of an action that the mask forbids."""
        return self.expected(self.logits(features))

    def dist_inputs(self, features: Features) -> Tensor:
        return self.q_values(features)

    def initial_state(self, batch_size: int) -> State:
        return self.encoder.initial_state(batch_size) if isinstance(self.encoder, Trunk) else {}

    def unroll_inputs(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        logits, after = self.unroll_logits(features, state, is_first, ends_unseen)
        return self.expected(logits), after

    def unroll_logits(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Return `logits` over sequences, `[L, B, A, num_atoms]`, and the next state."""
        if not isinstance(self.encoder, Trunk):
            return self.logits(features), {}
        hidden, after = self.encoder.unroll(features, state, is_first, ends_unseen)
        return self.logits_of(hidden, features), after

    def set_noise(self, generator: torch.Generator | None) -> None:
        for noisy in self._noisy_layers:
            noisy.set_noise(generator)


class NoisyLinear(nn.Module):
    """A layer with factorised Gaussian noise (Fortunato et al., 2018, arXiv 1706.10295).

    `y = (mu_w + sigma_w * eps_w) x + mu_b + sigma_b * eps_b` with
    `eps_w[i, j] = f(eps_out[i]) f(eps_in[j])`, `eps_b = f(eps_out)`, `f(x) = sign(x) sqrt|x|`
    (eq. 10 and 11). Without noise it is the linear layer of its means.

    Args:
        num_inputs: Width of the input.
        num_outputs: Width of the output.
        sigma0: Initial noise: sigma begins at `sigma0 / sqrt(num_inputs)`.
        generator: Random stream of the initial means.
    """

    eps_in: Tensor
    eps_out: Tensor

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        sigma0: float,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        bound, sigma = 1 / math.sqrt(num_inputs), sigma0 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs))
        self.bias = nn.Parameter(torch.empty(num_outputs))
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, sigma))
        self.bias_sigma = nn.Parameter(torch.full_like(self.bias, sigma))
        # Drawn anew before every use, so no part of the weights.
        self.register_buffer("eps_in", torch.zeros(num_inputs), persistent=False)
        self.register_buffer("eps_out", torch.zeros(num_outputs), persistent=False)

    def set_noise(self, generator: torch.Generator | None) -> None:
        """Draw new noise, or with None have none."""
        # In place: what sampling writes in inference mode, autograd reads in the next update.
        for noise in (self.eps_in, self.eps_out):
            if generator is None:
                noise.zero_()
                continue
            draw = torch.randn(noise.shape, generator=generator, device=generator.device)
            noise.copy_(draw.sign() * draw.abs().sqrt())

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs `[..., num_outputs]` of `[..., num_inputs]`."""
        weight = torch.addcmul(
            self.weight, self.weight_sigma, torch.outer(self.eps_out, self.eps_in)
        )
        return linear(x, weight, torch.addcmul(self.bias, self.bias_sigma, self.eps_out))


def _mean_over_actions(advantage: Tensor, legal: Tensor | None) -> Tensor:
    """Return the mean of advantages `[..., A, K]` over legal actions `[..., A, 1]`."""
    if legal is None:
        return advantage.mean(-2, keepdim=True)
    return (advantage * legal).sum(-2, keepdim=True) / legal.sum(-2, keepdim=True)
