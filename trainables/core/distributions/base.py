"""The interface of action distributions, and the constant that stands for a masked action.

A `Distribution` knows an action space; what it is given is the network's output `inputs`,
`[..., num_inputs]`. No `torch.distributions` objects: they cost more than the networks here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.core.errors import ConfigError

ILLEGAL = torch.finfo(torch.float32).min
"""The logit or action value of a masked action. Finite, so that nothing computed of it is NaN."""

# Log-probabilities of several actions are summed: bounded, so that the sum stays finite.
_LEAST_LOGP = -1e30


class Taken(NamedTuple):
    """How environments take stored actions, flattened, `[elements]` each; see `taken_logp`.

    Attributes:
        low: The bound that an element at or below it is taken for; -inf: it is taken as it is.
        high: The same above; inf: none.
        log_unit: The logarithm of a stored unit over half the width of the space.
    """

    low: Tensor
    high: Tensor
    log_unit: Tensor


class Distribution(ABC):
    """Distribution over the actions of one space.

    Inputs that equal `ILLEGAL` belong to masked actions: these have probability 0, are never drawn
    and get no gradient; entropies and divergences stay finite.

    Attributes:
        num_inputs: Width of the network output that parametrises it.
        num_encoded: Width of encoded actions.
        num_mask: Entries of a mask over its actions; 0: none of them can be masked.
        log_std_inputs: Which inputs are logarithms of standard deviations.
        action_shape: Shape of one action.
        action_dtype: dtype of stored actions.
    """

    num_inputs: int
    num_encoded: int
    num_mask: int = 0
    log_std_inputs: Sequence[int] = ()
    action_shape: tuple[int, ...]
    action_dtype: torch.dtype

    @abstractmethod
    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action for each row, `[..., *action_shape]`."""

    def noise(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        """Return the noise that `sample` would draw; None if it draws otherwise."""
        return None

    def sample_by(self, inputs: Tensor, noise: Tensor) -> Tensor:
        """Return the actions that `sample` draws, `[..., *action_shape]`, by noise drawn before.

        Args:
            inputs: `[..., num_inputs]`.
            noise: Of `noise`, which may change it.
        """
        raise ConfigError(f"{type(self).__name__} draws by no noise of its own")

    @abstractmethod
    def mode(self, inputs: Tensor) -> Tensor:
        """Return the most likely action of each row."""

    @abstractmethod
    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Return the log-probability (or density) of each row's action, `[...]`."""

    def taken_logp(self, inputs: Tensor, actions: Tensor, taken: Taken) -> Tensor:
        """Return the log-probability of what the environment is given of actions, `[...]`.

        All actions beyond a bound are one there: it has the mass of them, not a density (Tobin,
        1958). Densities are of actions normalised to [-1, 1], whatever is stored.

        Args:
            inputs: `[..., num_inputs]`.
            actions: As they are stored, clipped or not, `[..., *action_shape]`.
            taken: How the environment takes them.
        """
        return self.logp(inputs, actions)

    @abstractmethod
    def entropy(self, inputs: Tensor) -> Tensor:
        """Return the entropy of each row in nats, `[...]`."""

    @abstractmethod
    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        """Return KL(p || q) of each row in nats, `[...]`; `inputs` give p, `other` gives q."""

    @abstractmethod
    def encode(self, actions: Tensor) -> Tensor:
        """Return stored actions as networks see them, `[..., num_encoded]`, float32.

        Discrete actions are one-hot, continuous ones what they are before they are stretched to
        the bounds of their space.
        """

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return both at once, where that shares work."""
        return self.logp(inputs, actions), self.entropy(inputs)

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action for each row uniformly over those the inputs do not mask."""
        raise ConfigError(f"{type(self).__name__} is over a space without a uniform distribution")

    def _flat(self, actions: Tensor) -> Tensor:
        """Return actions `[..., *action_shape]` as `[..., elements]`."""
        leading = actions.shape[: actions.dim() - len(self.action_shape)]
        return actions.reshape(*leading, math.prod(self.action_shape))

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.reshape(*flat.shape[:-1], *self.action_shape)

    def mask(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Return inputs under which only allowed actions have a probability.

        Args:
            inputs: The network's output, `[..., num_inputs]`.
            mask: Whether each action is allowed, `[..., num_mask]`, bool. Where a choice allows
                nothing, it counts as if it allowed everything: see `allows_something`.
        """
        raise ConfigError(f"{type(self).__name__} is over a space whose actions cannot be masked")

    def allows_something(self, mask: Tensor) -> Tensor:
        """Return whether each row of a mask `[..., num_mask]` allows an action, `[...]`."""
        raise ConfigError(f"{type(self).__name__} is over a space whose actions cannot be masked")


class ByValue(Distribution):
    """The choice of actions by their values: what the inputs are.

    Attributes:
        epsilon: The present probability of a uniform draw.
        temperature: The temperature of softmax(Q / tau); 0 is greedy.
    """

    epsilon: float
    temperature: float

    @abstractmethod
    def as_logits(self) -> Distribution:
        """Return the distribution over the same actions that takes its inputs for logits."""


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Return logits or action values `[..., n]`, `ILLEGAL` where the mask `[..., n]` is False.

    A row that allows nothing counts as one that allows everything. That happens only where no
    action follows, e.g. on the last observation of an episode: whoever acts looks before.
    """
    return logits.masked_fill(~legal_actions(mask), ILLEGAL)


def legal_actions(mask: Tensor) -> Tensor:
    """Return a mask `[..., n]`, all True in rows that allow nothing; see `mask_logits`."""
    return mask | ~mask.any(-1, keepdim=True)


def sum_logps(logps: Tensor) -> Tensor:
    """Return the sum over the last axis `[..., k]`, finite even if several are `ILLEGAL`."""
    return logps.clamp_min(_LEAST_LOGP).sum(-1)
