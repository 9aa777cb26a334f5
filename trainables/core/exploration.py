"""Exploration over action values: epsilon-greedy and softmax."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.distributions import Distribution, categorical_sample


class EpsilonGreedy(Distribution):
    """Actions by their values `inputs = Q(s, .)`, `[..., A]`.

    With probability epsilon an action is drawn uniformly. Otherwise it is the best one, or with a
    temperature tau > 0 one drawn from softmax(Q / tau).

    Args:
        num_actions: A.
        temperature: tau; 0 is greedy.

    Attributes:
        epsilon: The present probability of a uniform draw.
    """

    action_shape = ()
    action_dtype = torch.int64

    def __init__(self, num_actions: int, temperature: float = 0.0):
        self.num_inputs = num_actions
        self.temperature = temperature
        self.epsilon = 0.0

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if self.temperature > 0:
            chosen = categorical_sample(inputs / self.temperature, generator)
        else:
            chosen = inputs.argmax(-1)
        if self.epsilon == 0:
            return chosen
        # One draw decides both: below epsilon, it says which of the A equal parts it fell in.
        draw = torch.rand(chosen.shape, generator=generator, device=inputs.device)
        if inputs.device.type == "cpu" and draw.min().item() >= self.epsilon:
            return chosen  # most steps of a few slots: the rest would cost as much as the network
        draw /= self.epsilon
        part = (draw * self.num_inputs).long().clamp_max(self.num_inputs - 1)
        return torch.where(draw < 1, part, chosen)

    def mode(self, inputs: Tensor) -> Tensor:
        return inputs.argmax(-1)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """Of each action, `[..., A]`."""
        if self.temperature > 0:
            chosen = torch.softmax(inputs / self.temperature, -1)
        else:
            chosen = one_hot(inputs.argmax(-1), self.num_inputs).to(inputs.dtype)
        return self.epsilon / self.num_inputs + (1 - self.epsilon) * chosen

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        chosen = self.probabilities(inputs).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        # Finite, as every metric and column must be, also for what epsilon = 0 never does.
        return chosen.clamp_min(torch.finfo(inputs.dtype).tiny).log()

    def entropy(self, inputs: Tensor) -> Tensor:
        probabilities = self.probabilities(inputs)
        return -torch.special.xlogy(probabilities, probabilities).sum(-1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        p, q = self.probabilities(inputs), self.probabilities(other)
        tiny = torch.finfo(q.dtype).tiny
        return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q.clamp_min(tiny))).sum(-1)
