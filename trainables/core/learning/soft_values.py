"""Soft values of discrete actions: sums over those that each state allows (Christodoulou, 2019)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from trainables.core.distributions.base import ILLEGAL


class LegalProbs(NamedTuple):
    """Log-probabilities and probabilities of actions, `[B, A]`.

    Both are 0 for an illegal action, so that it counts nowhere and nothing is infinite.
    """

    log_probs: Tensor
    probs: Tensor


def legal_probs(inputs: Tensor) -> LegalProbs:
    """Return the probabilities of actions by their logits, `[B, A]`."""
    log_probs = inputs.log_softmax(-1)
    return LegalProbs(log_probs.masked_fill(inputs == ILLEGAL, 0.0), log_probs.exp())


def soft_values(probs: LegalProbs, q_values: Tensor, alpha: Tensor | float) -> Tensor:
    """Return the mean of Q - alpha log pi over what the policy does in each state, `[B]`.

    Args:
        probs: Of the actions.
        q_values: Of every action, `[B, A]`.
        alpha: Weight of the entropy; 0 leaves it out.
    """
    return (probs.probs * (q_values - alpha * probs.log_probs)).sum(-1)


def entropies(probs: LegalProbs) -> Tensor:
    """Return the policy's entropy in each state, nats, `[B]`."""
    return -(probs.probs * probs.log_probs).sum(-1)
