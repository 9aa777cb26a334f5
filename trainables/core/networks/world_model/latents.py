"""Categorical latents: a mixture with the uniform, draws with a gradient, divergences.

Logits are `[..., S, K]`: S variables of K classes each. Drawn latents are one-hot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

UNIMIX = 0.01
"""Share of the uniform distribution: no class is impossible, so that divergences stay finite."""
_FEW_CLASSES = 16


class Drawn(NamedTuple):
    """The model's features with z by its classes: for what needs no gradient of them.

    Attributes:
        h: What is beside z, `[..., deter]`; None: nothing.
        classes: Of z, `[..., S]` integers.
        num_classes: Classes K that each could be.
    """

    h: Tensor | None
    classes: Tensor
    num_classes: int

    @property
    def z(self) -> Tensor:
        """One-hot, `[..., S, K]`."""
        return one_hot(self.classes, self.num_classes).to(torch.float32)

    @property
    def features(self) -> Tensor:
        """All numbers side by side, `[..., deter + S K]`."""
        z = self.z.flatten(-2)
        return z if self.h is None else torch.cat([self.h, z], -1)

    def rows(self, which: slice) -> Drawn:
        """Return some of the rows of the first axis."""
        h = None if self.h is None else self.h[which]
        return self._replace(h=h, classes=self.classes[which])


def stacked(steps: Sequence[Drawn]) -> Drawn:
    """Return steps `[T, …]` of states that each have an h."""
    h = torch.stack([step.h for step in steps if step.h is not None])
    return Drawn(h, torch.stack([step.classes for step in steps]), steps[0].num_classes)


def unimix(logits: Tensor, share: float = UNIMIX) -> Tensor:
    """Return log-probabilities of softmax(logits) mixed with the uniform distribution."""
    return mixed(logits, share).log()


def mixed(logits: Tensor, share: float = UNIMIX) -> Tensor:
    """Return the probabilities that `unimix` has the logarithms of."""
    return (1 - share) * _softmax(logits) + share / logits.shape[-1]


def _softmax(logits: Tensor) -> Tensor:
    # Along the last axis a CPU takes one variable after the other, along another one many at once:
    # of few classes that is faster by far.
    if logits.dim() > 1 and logits.shape[-1] < _FEW_CLASSES:
        return logits.transpose(-1, -2).softmax(-2).transpose(-1, -2)
    return logits.softmax(-1)


def draw(log_probs: Tensor, noise: Tensor | None) -> Tensor:
    """Draw one class of each variable, one-hot, `[..., S, K]`.

    Its gradient is that of the probabilities (straight through: Bengio et al., 2013).

    Args:
        log_probs: Normalised, `[..., S, K]`.
        noise: Uniform in [0, 1), `[..., S]`; None takes the most likely classes.
    """
    probs = log_probs.exp()
    classes = one_hot(draw_classes(probs.detach(), noise), probs.shape[-1]).to(probs.dtype)
    return classes + probs - probs.detach()


def draw_classes(probs: Tensor, noise: Tensor | None) -> Tensor:
    """Draw one class of each variable, `[..., S]`.

    Args:
        probs: `[..., S, K]`.
        noise: Uniform in [0, 1), `[..., S]`; None takes the most likely classes.
    """
    if noise is None:
        return probs.argmax(-1)
    # The inverse of the distribution function: a number for each variable instead of each class.
    # Rounded sums may end below 1.
    passed = probs.cumsum(-1) <= noise.unsqueeze(-1)
    return passed.sum(-1).clamp_max(probs.shape[-1] - 1)


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p || q) of log-probabilities `[..., S, K]`, summed over the variables, `[...]`."""
    return (log_p.exp() * (log_p - log_q)).sum((-2, -1))


def entropy(log_probs: Tensor) -> Tensor:
    """Return the entropy in nats, summed over the variables, `[...]`."""
    return -(log_probs.exp() * log_probs).sum((-2, -1))


def packed(latents: Tensor) -> Tensor:
    """Return one-hot latents `[..., S, K]` as bytes `[..., S]`: 1 + the class, 0 for none."""
    is_some = latents.detach().sum(-1) > 0.5
    return torch.where(is_some, latents.argmax(-1) + 1, 0).to(torch.uint8)


def unpacked(stored: Tensor, num_classes: int) -> Tensor:
    """Return what `packed` was given of bytes `[..., S]`: one-hot, or zeros, `[..., S, K]`."""
    classes = torch.arange(1, num_classes + 1, device=stored.device)
    return (stored.unsqueeze(-1) == classes).to(torch.float32)
