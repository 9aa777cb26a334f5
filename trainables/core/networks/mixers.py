"""Mixers: from the values of each agent's action to one of them together, Q_tot."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from trainables.core.networks.layers import linear_layer, mlp


class Mixer(nn.Module, ABC):
    """Q_tot of the values of the agents' actions, monotone in each of them.

    So the greedy joint action is that of each agent's own greedy actions.
    """

    @abstractmethod
    def forward(self, q_values: Tensor, states: Tensor) -> Tensor:
        """Return Q_tot, `[B]`.

        Args:
            q_values: Of each agent's action, `[B, G]`.
            states: The global state, `[B, S]`.
        """


class SumMixer(Mixer):
    """The sum of the values (VDN: Sunehag et al., 2018, arXiv 1706.05296)."""

    def forward(self, q_values: Tensor, states: Tensor) -> Tensor:
        return q_values.sum(-1)


class MonotonicMixer(Mixer):
    """Two layers whose weights the state says, none below 0 (QMIX: Rashid et al., 2018).

    `Q_tot = elu(q |W1(s)| + b1(s)) |w2(s)| + b2(s)`. Biases may have any sign: they do not change
    which actions are best. W1 and w2 come of networks with one hidden layer, as in the authors'
    code; without one they are linear in the state, as in the paper. b2 has a hidden layer.

    Args:
        num_agents: The number of agents, G.
        num_states: Width of the global state, S.
        embed_dim: Hidden units of the mixer, E.
        hypernet_dim: Hidden units of the networks that say the weights; 0: they are linear.
        initializer: As `linear_layer` has it.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_agents: int,
        num_states: int,
        embed_dim: int = 32,
        hypernet_dim: int = 64,
        initializer: str = "orthogonal",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self._num_agents = num_agents

        def network(hidden: int, num_outputs: int) -> nn.Sequential:
            hiddens = [hidden] if hidden else []
            return mlp(
                num_states,
                hiddens,
                "relu",
                num_outputs=num_outputs,
                initializer=initializer,
                generator=generator,
            )

        self.first_weights = network(hypernet_dim, num_agents * embed_dim)
        self.first_biases = linear_layer(num_states, embed_dim, 1.0, initializer, generator)
        self.last_weights = network(hypernet_dim, embed_dim)
        self.last_bias = network(embed_dim, 1)

    def forward(self, q_values: Tensor, states: Tensor) -> Tensor:
        weights = self.first_weights(states).abs().unflatten(-1, (self._num_agents, -1))
        mixed = (q_values.unsqueeze(-2) @ weights).squeeze(-2)  # [B, E]
        hidden = elu(mixed + self.first_biases(states))
        weighted = (hidden * self.last_weights(states).abs()).sum(-1)
        return weighted + self.last_bias(states).squeeze(-1)
