"""Exploration over action values: epsilon-greedy and softmax."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.distributions.base import ILLEGAL, ByValue
from trainables.core.distributions.categorical import (
    Categorical,
    MultiCategorical,
    categorical_sample,
)


class EpsilonGreedy(Categorical, ByValue):
    """The choice of actions by their values `inputs = Q(s, .)`, `[..., A]`.

    With probability epsilon an action is drawn uniformly from those that are not masked. Otherwise
    it is the best one, or with a temperature tau > 0 one drawn from softmax(Q / tau).

    Args:
        num_actions: The number of actions, A.
        temperature: The temperature tau; 0 is greedy.

    Attributes:
        epsilon: The present probability of a uniform draw.
    """

    def __init__(self, num_actions: int, temperature: float = 0.0):
        super().__init__(num_actions)
        self.temperature = temperature
        self.epsilon = 0.0

    def as_logits(self) -> Categorical:
        return Categorical(self.num_inputs)

    def noise(self, inputs: Tensor, generator: torch.Generator | None = None) -> None:
        return None  # whether a draw is uniform is drawn, too

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if self.temperature > 0:
            chosen = categorical_sample(inputs / self.temperature, generator)
        else:
            chosen = inputs.argmax(-1)
        if self.epsilon == 0:
            return chosen
        # One draw decides both: below epsilon, it says which of the equal parts it fell in, one
        # for each legal action.
        draw = torch.rand(chosen.shape, generator=generator, device=inputs.device)
        if inputs.device.type == "cpu" and draw.min().item() >= self.epsilon:
            return chosen  # most steps of a few slots: the rest would cost as much as the network
        draw /= self.epsilon
        counts = (inputs != ILLEGAL).cumsum(-1)  # legal actions up to each, itself included
        part = draw * counts[..., -1]  # less than their number wherever draw is less than 1
        return torch.where(draw < 1, (counts <= part.unsqueeze(-1)).sum(-1), chosen)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """Return the probability of each action, `[..., A]`."""
        if self.temperature > 0:
            chosen = torch.softmax(inputs / self.temperature, -1)
        else:
            chosen = one_hot(inputs.argmax(-1), self.num_inputs).to(inputs.dtype)
        is_legal = (inputs != ILLEGAL).to(inputs.dtype)
        uniform = is_legal / is_legal.sum(-1, keepdim=True)
        return self.epsilon * uniform + (1 - self.epsilon) * chosen

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        chosen = self.probabilities(inputs).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        # Finite, as every metric and column must be, also for what epsilon = 0 never does.
        return chosen.clamp_min(torch.finfo(inputs.dtype).tiny).log()

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        return self.logp(inputs, actions), self.entropy(inputs)

    def entropy(self, inputs: Tensor) -> Tensor:
        probabilities = self.probabilities(inputs)
        return -torch.special.xlogy(probabilities, probabilities).sum(-1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        p, q = self.probabilities(inputs), self.probabilities(other)
        tiny = torch.finfo(q.dtype).tiny
        return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q.clamp_min(tiny))).sum(-1)


class TeamEpsilonGreedy(MultiCategorical, ByValue):
    """The choices of several agents by their values, `[..., G * A]`; each explores by itself.

    Args:
        num_agents: The number of agents, G.
        num_actions: The number of actions of each, A.
        temperature: The temperature tau; 0 is greedy.
        shape: The shape of a joint action; by default one axis.
    """

    _part: EpsilonGreedy

    def __init__(
        self,
        num_agents: int,
        num_actions: int,
        temperature: float = 0.0,
        shape: tuple[int, ...] | None = None,
    ):
        super().__init__([num_actions] * num_agents, shape)
        self._part = EpsilonGreedy(num_actions, temperature)

    @property
    def epsilon(self) -> float:
        """The present probability of a uniform draw, of each agent by itself."""
        return self._part.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self._part.epsilon = epsilon

    @property
    def temperature(self) -> float:
        """The temperature of softmax(Q / tau); 0 is greedy."""
        return self._part.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self._part.temperature = temperature

    def as_logits(self) -> MultiCategorical:
        return MultiCategorical(self.nvec, self.action_shape)

    def noise(self, inputs: Tensor, generator: torch.Generator | None = None) -> None:
        return None  # whether a draw is uniform is drawn, too

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._shaped(self._part.sample(self._rows(inputs), generator))
