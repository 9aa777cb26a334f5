"""Action distributions as stateless functions of the network's output.

A `Distribution` knows an action space; what it is given is the network's output `inputs`,
`[..., num_inputs]`. No `torch.distributions` objects: they cost more than the networks here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softplus

from trainables.core.settings import ConfigError

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# Of a squashed Gaussian. The paper's code allows -20; below -5 a policy is as good as deterministic
# and its log-probabilities only add noise to the entropy term.
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class Distribution(ABC):
    """Distribution over the actions of one space.

    Attributes:
        num_inputs: Width of the network output that parametrises it.
        action_shape: Shape of one action.
        action_dtype: dtype of stored actions.
    """

    num_inputs: int
    action_shape: tuple[int, ...]
    action_dtype: torch.dtype

    @abstractmethod
    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action for each row, `[..., *action_shape]`."""

    @abstractmethod
    def mode(self, inputs: Tensor) -> Tensor:
        """The most likely action of each row."""

    @abstractmethod
    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Log-probability (or density) of each row's action, `[...]`."""

    @abstractmethod
    def entropy(self, inputs: Tensor) -> Tensor:
        """Entropy of each row in nats, `[...]`."""

    @abstractmethod
    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        """KL(p || q) of each row in nats, p given by `inputs` and q by `other`, `[...]`."""

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Both at once, where that shares work."""
        return self.logp(inputs, actions), self.entropy(inputs)

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action for each row uniformly over the space, whatever the inputs say."""
        raise ConfigError(f"{type(self).__name__} is over a space without a uniform distribution")


def categorical_sample(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from softmax(logits) `[..., n]`, `[...]`.

    Gumbel-max: argmax of logits + Gumbel noise is an exact draw, with no normalisation.
    """
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log_()).argmax(-1)


class Categorical(Distribution):
    """Over n discrete actions 0 … n-1, parametrised by logits `[..., n]`."""

    action_shape = ()
    action_dtype = torch.int64

    def __init__(self, num_actions: int):
        self.num_inputs = num_actions

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return categorical_sample(inputs, generator)

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return categorical_sample(torch.zeros_like(inputs), generator)

    def mode(self, inputs: Tensor) -> Tensor:
        return inputs.argmax(-1)

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return log_softmax(inputs, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        log_probs = log_softmax(inputs, -1)
        return -_expectation(log_probs, log_probs)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        log_p = log_softmax(inputs, -1)
        return _expectation(log_p, log_p - log_softmax(other, -1))

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = log_softmax(inputs, -1)
        logp = log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return logp, -_expectation(log_probs, log_probs)


class MultiCategorical(Distribution):
    """Several independent categoricals, logits side by side; log-probs and entropies add up."""

    action_dtype = torch.int64

    def __init__(self, nvec: list[int]):
        self._nvec = nvec
        self._parts = [Categorical(n) for n in nvec]
        self.num_inputs = sum(nvec)
        self.action_shape = (len(nvec),)

    def _split(self, inputs: Tensor) -> tuple[Tensor, ...]:
        return inputs.split(self._nvec, -1)

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        pairs = zip(self._parts, self._split(inputs), strict=True)
        return torch.stack([part.sample(logits, generator) for part, logits in pairs], -1)

    def mode(self, inputs: Tensor) -> Tensor:
        return torch.stack([logits.argmax(-1) for logits in self._split(inputs)], -1)

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        triples = zip(self._parts, self._split(inputs), actions.unbind(-1), strict=True)
        return torch.stack([part.logp(logits, a) for part, logits, a in triples]).sum(0)

    def entropy(self, inputs: Tensor) -> Tensor:
        pairs = zip(self._parts, self._split(inputs), strict=True)
        return torch.stack([part.entropy(logits) for part, logits in pairs]).sum(0)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        triples = zip(self._parts, self._split(inputs), self._split(other), strict=True)
        return torch.stack([part.kl(p, q) for part, p, q in triples]).sum(0)


class DiagGaussian(Distribution):
    """Independent Gaussians, `inputs = [mean, log sigma]`, `[..., 2 d]`."""

    action_dtype = torch.float32

    def __init__(self, shape: tuple[int, ...]):
        self.action_shape = shape
        self._size = math.prod(shape)
        self.num_inputs = 2 * self._size

    def _parameters(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = inputs.split(self._size, -1)
        return mean, log_std

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.reshape(*flat.shape[:-1], *self.action_shape)

    def _flat(self, actions: Tensor) -> Tensor:
        return actions.reshape(*actions.shape[: actions.dim() - len(self.action_shape)], self._size)

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean, log_std = self._parameters(inputs)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return self._shaped(mean + log_std.exp() * noise)

    def mode(self, inputs: Tensor) -> Tensor:
        return self._shaped(self._parameters(inputs)[0])

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = self._parameters(inputs)
        scaled = (self._flat(actions) - mean) * (-log_std).exp()
        return (-0.5 * scaled.square() - log_std).sum(-1) - self._size * _HALF_LOG_2PI

    def entropy(self, inputs: Tensor) -> Tensor:
        return self._parameters(inputs)[1].sum(-1) + self._size * (0.5 + _HALF_LOG_2PI)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        (mean_p, log_p), (mean_q, log_q) = self._parameters(inputs), self._parameters(other)
        moments = (2 * (log_p - log_q)).exp() + ((mean_p - mean_q) * (-log_q).exp()).square()
        return (log_q - log_p + 0.5 * (moments - 1)).sum(-1)


class SquashedGaussian(DiagGaussian):
    """tanh of a diagonal Gaussian: actions in (-1, 1).

    Stored actions are the samples BEFORE tanh: the density of a saturated action cannot be told
    from the action itself. `squash` gives what the environment's scale is mapped from.
    """

    def _parameters(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = super()._parameters(inputs)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), stable for large |u|.
        flat = self._flat(actions)
        correction = 2 * (math.log(2) - flat - softplus(-2 * flat))
        return super().logp(inputs, actions) - correction.sum(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        """`H = H(Gaussian) + E[log |dtanh/du|]`, the expectation by Gauss-Hermite quadrature."""
        mean, log_std = self._parameters(inputs)
        nodes, weights = _gauss_hermite(inputs.device, inputs.dtype)
        u = mean.unsqueeze(-1) + log_std.exp().unsqueeze(-1) * nodes
        correction = 2 * (math.log(2) - u - softplus(-2 * u))
        return super().entropy(inputs) + (correction * weights).sum(-1).sum(-1)

    def rsample(self, inputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Reparametrised samples: gradients flow from them to the inputs.

        Args:
            inputs: `[B, 2 d]`.
            noise: Standard normal, `[B, d]`.

        Returns:
            Actions in (-1, 1), `[B, d]`, and their log-probabilities, `[B]`.
        """
        mean, log_std = self._parameters(inputs)
        u = mean + log_std.exp() * noise
        correction = 2 * (math.log(2) - u - softplus(-2 * u))
        # Of the noise itself: (u - mean) / sigma would only round.
        logp = (-0.5 * noise.square() - log_std - correction).sum(-1)
        return u.tanh(), logp - self._size * _HALF_LOG_2PI

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        mean = self._parameters(inputs)[0]
        actions = torch.empty_like(mean).uniform_(-1, 1, generator=generator)
        limit = 1 - torch.finfo(mean.dtype).eps  # atanh is finite inside
        return self._shaped(actions.clamp_(-limit, limit).atanh())

    @staticmethod
    def squash(actions: Tensor) -> Tensor:
        """Actions in (-1, 1) from stored ones."""
        return actions.tanh()


def _gauss_hermite(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes and weights of E[f(z)], z standard normal (exact for polynomials of degree 63)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    weights = weights / weights.sum()
    return (
        torch.as_tensor(nodes, device=device, dtype=dtype),
        torch.as_tensor(weights, device=device, dtype=dtype),
    )


def _expectation(log_probs: Tensor, values: Tensor) -> Tensor:
    """`sum_a p(a) values(a)`, where an action of probability 0 contributes 0, never NaN."""
    return (log_probs.exp() * values.clamp_min(torch.finfo(values.dtype).min)).sum(-1)


class BoundDistribution:
    """A distribution with its inputs, as the reference's `policy.dist_class(logits)` gives it."""

    def __init__(self, distribution: Distribution, inputs: Tensor):
        self.distribution, self.inputs = distribution, inputs

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw actions."""
        return self.distribution.sample(self.inputs, generator)

    def deterministic_sample(self) -> Tensor:
        """The most likely actions."""
        return self.distribution.mode(self.inputs)

    def logp(self, actions: Tensor) -> Tensor:
        """Log-probabilities of actions."""
        return self.distribution.logp(self.inputs, actions)

    def entropy(self) -> Tensor:
        """Entropies in nats."""
        return self.distribution.entropy(self.inputs)

    def kl(self, other: BoundDistribution) -> Tensor:
        """KL divergence to another distribution of the same kind, in nats."""
        return self.distribution.kl(self.inputs, other.inputs)


def distribution_for(space: gym.Space, *, squash: bool = False) -> Distribution:
    """The distribution over an action space.

    Raises:
        ConfigError: if the space is not supported.
    """
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return MultiCategorical([int(n) for n in space.nvec])
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return SquashedGaussian(space.shape) if squash else DiagGaussian(space.shape)
    raise ConfigError(
        f"action space {space} is not supported yet; supported: Discrete, MultiDiscrete (1-D), "
        "Box of floats"
    )
