"""The actor: from the state of the world model to the distribution of actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical, MultiBernoulli, MultiCategorical
from trainables.core.distributions.gaussian import DiagGaussian
from trainables.core.distributions.joint import Joint
from trainables.core.networks.world_model.latents import UNIMIX, Drawn, unimix
from trainables.core.networks.world_model.layers import mlp
from trainables.core.networks.world_model.sizes import ModelSize

_MIN_STD, _MAX_STD = 0.1, 1.0


class ActorHead(nn.Module):
    """Layers to a distribution that never is certain: it goes on exploring.

    Args:
        num_inputs: Width of the model's features.
        distribution: Of the actions.
        size: Widths of the layers.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_inputs: int,
        distribution: Distribution,
        size: ModelSize,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self._distribution = distribution
        hiddens = [size.units] * size.layers
        self.layers = mlp(num_inputs, hiddens, distribution.num_inputs, 0.01, generator)

    def forward(self, states: Tensor | Drawn, mask: Tensor | None = None) -> Tensor:
        """Return the inputs of the distribution, `[..., num_inputs]`.

        Args:
            states: The model's features, `[..., num_inputs]`.
            mask: Which actions are allowed, `[..., num_mask]`; None: all.
        """
        inputs = restless(self._distribution, self.layers(states))
        return inputs if mask is None else self._distribution.mask(inputs, mask)


def restless(distribution: Distribution, outputs: Tensor) -> Tensor:
    """Return inputs of a distribution that keeps some randomness whatever the outputs are.

    Choices are mixed with 1% of the uniform distribution. Means of Gaussians lie in [-1, 1],
    standard deviations in [0.1, 1].

    Args:
        distribution: Of the actions.
        outputs: Any numbers, `[..., num_inputs]`.
    """
    if isinstance(distribution, Joint):
        parts = list(distribution.parts.values())
        split = outputs.split([part.num_inputs for part in parts], -1)
        pairs = zip(parts, split, strict=True)
        return torch.cat([restless(part, own) for part, own in pairs], -1)
    if isinstance(distribution, DiagGaussian):
        mean, spread = outputs.chunk(2, -1)
        std = _MIN_STD + (_MAX_STD - _MIN_STD) * torch.sigmoid(spread + 2)
        return torch.cat([mean.tanh(), std.log()], -1)
    if isinstance(distribution, MultiCategorical):
        return torch.cat([unimix(own) for own in outputs.split(distribution.nvec, -1)], -1)
    if isinstance(distribution, MultiBernoulli):
        return torch.logit((1 - UNIMIX) * outputs.sigmoid() + UNIMIX / 2)
    assert isinstance(distribution, Categorical)
    return unimix(outputs)
