"""Distributions over discrete actions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid, one_hot, pad, softplus

from trainables.core.distributions.base import ILLEGAL, Distribution, mask_logits, sum_logps

# Of what is averaged: 0 times it is 0, and sums of it are finite in float32.
_LARGE = 1e30


def categorical_sample(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from softmax(logits) `[..., n]`, `[...]`.

    Gumbel-max: argmax of logits + Gumbel noise is an exact draw, with no normalisation. The noise
    is nothing next to `ILLEGAL`, which is therefore never drawn beside a legal action.
    """
    return _by_noise(logits, _noise(logits, generator))


def _noise(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.empty_like(logits).exponential_(generator=generator)


def _by_noise(logits: Tensor, noise: Tensor) -> Tensor:
    return (logits - noise.log_()).argmax(-1)


def uniform_sample(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw uniformly from the actions whose logit `[..., n]` is not `ILLEGAL`, `[...]`."""
    return categorical_sample((logits == ILLEGAL) * ILLEGAL, generator)


class Categorical(Distribution):
    """The distribution over n actions 0 … n-1, parametrised by logits `[..., n]`."""

    action_shape = ()
    action_dtype = torch.int64

    def __init__(self, num_actions: int):
        self.num_inputs = self.num_encoded = self.num_mask = num_actions

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return categorical_sample(inputs, generator)

    def noise(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        return _noise(inputs, generator)

    def sample_by(self, inputs: Tensor, noise: Tensor) -> Tensor:
        return _by_noise(inputs, noise)

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return uniform_sample(inputs, generator)

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

    def encode(self, actions: Tensor) -> Tensor:
        return one_hot(actions, self.num_encoded).to(torch.float32)

    def mask(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return mask_logits(inputs, mask)

    def allows_something(self, mask: Tensor) -> Tensor:
        return mask.any(-1)


class MultiCategorical(Distribution):
    """Several independent categoricals, logits side by side; log-probs and entropies add up.

    Computed as one categorical over rows of equal width, filled up with `ILLEGAL`.

    Args:
        nvec: The number of actions of each part; an attribute, too.
        shape: The shape of an action; by default one axis.
    """

    action_dtype = torch.int64

    def __init__(self, nvec: list[int], shape: tuple[int, ...] | None = None):
        self.nvec = list(nvec)
        self._num_parts, self._width = len(nvec), max(nvec)
        self._part = Categorical(self._width)
        self.num_inputs = self.num_encoded = self.num_mask = sum(nvec)
        self.action_shape = (len(nvec),) if shape is None else shape
        starts = torch.tensor(nvec).cumsum(0) - torch.tensor(nvec)
        column = torch.arange(self._width)
        is_filling = column >= torch.tensor(nvec).unsqueeze(1)
        # Of every place in the rows: which input it takes; the one after the last is the filling.
        places = (starts.unsqueeze(1) + column).masked_fill(is_filling, self.num_inputs)
        self._places = places.flatten() if is_filling.any() else None
        self._taken = (~is_filling.flatten()).nonzero().squeeze(1)
        self._starts = starts

    def _rows(self, inputs: Tensor, filling: float = ILLEGAL) -> Tensor:
        """Return `[..., num_inputs]` as rows, one for each part, `[..., parts, width]`."""
        if self._places is not None:
            inputs = pad(inputs, (0, 1), value=filling)[..., self._places.to(inputs.device)]
        return inputs.unflatten(-1, (self._num_parts, self._width))

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._shaped(categorical_sample(self._rows(inputs), generator))

    def noise(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        return _noise(self._rows(inputs), generator)

    def sample_by(self, inputs: Tensor, noise: Tensor) -> Tensor:
        return self._shaped(_by_noise(self._rows(inputs), noise))

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._shaped(uniform_sample(self._rows(inputs), generator))

    def mode(self, inputs: Tensor) -> Tensor:
        return self._shaped(self._rows(inputs).argmax(-1))

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return sum_logps(self._part.logp(self._rows(inputs), self._flat(actions)))

    def entropy(self, inputs: Tensor) -> Tensor:
        return self._part.entropy(self._rows(inputs)).sum(-1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        return self._part.kl(self._rows(inputs), self._rows(other)).sum(-1)

    def logp_and_entropy(self, inputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        logp, entropy = self._part.logp_and_entropy(self._rows(inputs), self._flat(actions))
        return sum_logps(logp), entropy.sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        flat = self._flat(actions)
        encoded = torch.zeros(*flat.shape[:-1], self.num_encoded, device=flat.device)
        return encoded.scatter_(-1, flat + self._starts.to(flat.device), 1.0)

    def mask(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """See `Distribution.mask`; the parts' masks lie side by side, `[..., sum of nvec]`."""
        rows = mask_logits(self._rows(inputs), self._rows(mask, filling=False)).flatten(-2)
        return rows if self._places is None else rows[..., self._taken.to(rows.device)]

    def allows_something(self, mask: Tensor) -> Tensor:
        return self._rows(mask, filling=False).any(-1).all(-1)


class MultiBernoulli(Distribution):
    """Independent bits, each parametrised by the logit of a 1.

    A mask has two entries for each bit: whether it may be 0, and whether it may be 1. A bit that
    cannot be 1 has the logit `ILLEGAL`, one that cannot be 0 has `-ILLEGAL`.

    Args:
        shape: The shape of an action.
    """

    action_dtype = torch.int64

    def __init__(self, shape: tuple[int, ...]):
        self.action_shape = shape
        self.num_inputs = self.num_encoded = math.prod(shape)
        self.num_mask = 2 * self.num_inputs

    def sample(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        draw = torch.rand(inputs.shape, generator=generator, device=inputs.device)  # in [0, 1)
        return self._shaped(draw < inputs.sigmoid()).long()

    def uniform(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.sample(torch.where(inputs.abs() == -ILLEGAL, inputs, 0.0), generator)

    def mode(self, inputs: Tensor) -> Tensor:
        return self._shaped(inputs > 0).long()

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return sum_logps(logsigmoid(torch.where(self._flat(actions) == 1, inputs, -inputs)))

    def entropy(self, inputs: Tensor) -> Tensor:
        # log(1 + e^l) - l p(1)
        return (softplus(inputs) - inputs * inputs.sigmoid()).sum(-1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        def term(p: Tensor, q: Tensor) -> Tensor:
            return p.sigmoid() * (logsigmoid(p) - logsigmoid(q)).clamp(-_LARGE, _LARGE)

        return (term(inputs, other) + term(-inputs, -other)).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        return self._flat(actions).to(torch.float32)

    def mask(self, inputs: Tensor, mask: Tensor) -> Tensor:
        may_be_0, may_be_1 = mask.unflatten(-1, (self.num_inputs, 2)).unbind(-1)
        without_1 = inputs.masked_fill(may_be_0 & ~may_be_1, ILLEGAL)
        return without_1.masked_fill(may_be_1 & ~may_be_0, -ILLEGAL)

    def allows_something(self, mask: Tensor) -> Tensor:
        return mask.unflatten(-1, (self.num_inputs, 2)).any(-1).all(-1)


def _expectation(log_probs: Tensor, values: Tensor) -> Tensor:
    """Return `sum_a p(a) values(a)`; an action of probability 0 contributes 0, never NaN."""
    return (log_probs.exp() * values.clamp(-_LARGE, _LARGE)).sum(-1)
