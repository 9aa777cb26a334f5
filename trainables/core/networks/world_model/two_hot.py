"""Numbers of any size as a distribution over 255 bins (Hafner et al., 2023, eq. 10 and 11)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from trainables.core.networks.world_model.latents import Drawn
from trainables.core.networks.world_model.layers import mlp
from trainables.core.networks.world_model.symlog import symexp

NUM_BINS = 255
_LARGEST = 20.0  # symlog of the outermost bins: half a billion


class TwoHotHead(nn.Module):
    """Layers to the logits of bins that lie the wider apart, the farther they are from 0.

    What is predicted is the mean over the bins. At the start all bins are equally likely, so it is
    0 exactly.

    Args:
        num_inputs: Width of the input.
        hiddens: Widths of the layers.
        generator: Random stream of the initial weights.
    """

    bins: Tensor

    def __init__(
        self, num_inputs: int, hiddens: Sequence[int], generator: torch.Generator | None = None
    ):
        super().__init__()
        self.layers = mlp(num_inputs, hiddens, NUM_BINS, scale=0.0, generator=generator)
        self.register_buffer("bins", two_hot_bins(), persistent=False)

    def forward(self, features: Tensor | Drawn) -> Tensor:
        """Return logits `[..., 255]` of features `[..., num_inputs]`."""
        logits: Tensor = self.layers(features)
        return logits

    def mean(self, logits: Tensor) -> Tensor:
        """Return the numbers that logits `[..., 255]` stand for, `[...]`."""
        return two_hot_mean(logits, self.bins)

    def losses(self, logits: Tensor, *targets: Tensor) -> tuple[Tensor, ...]:
        """Return cross-entropies in nats with each of several targets, `[...]`."""
        log_probs = log_softmax(logits, -1)
        return tuple(two_hot_losses(log_probs, target, self.bins) for target in targets)


def two_hot_bins() -> Tensor:
    """Return the bins, `[255]`: symmetric to the bit, the one in the middle is 0."""
    below = symexp(torch.linspace(-_LARGEST, 0.0, NUM_BINS // 2 + 1, dtype=torch.float64))[:-1]
    return torch.cat([below, below.new_zeros(1), -below.flip(0)]).to(torch.float32)


def two_hot_mean(logits: Tensor, bins: Tensor) -> Tensor:
    """Return the mean over the bins; of equal logits it is 0 to the bit."""
    probs, half = logits.softmax(-1), len(bins) // 2
    # What lies on both sides is subtracted before it is multiplied: the outermost bins are so large
    # that the rounding of their sum would be nothing small.
    excess = probs[..., half + 1 :] - probs[..., :half].flip(-1)
    return (excess * bins[half + 1 :]).sum(-1)


def two_hot_losses(log_probs: Tensor, targets: Tensor, bins: Tensor) -> Tensor:
    """Return the cross-entropy with targets that share out between the two nearest bins.

    Args:
        log_probs: Of the bins, `[..., 255]`.
        targets: Numbers without a gradient, `[...]`; beyond the outermost bins as these.
        bins: `[255]`.
    """
    targets = targets.detach().clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, targets.contiguous()).clamp_min(1)  # bins[above] >= target
    low, high = bins[above - 1], bins[above]
    share = (targets - low) / (high - low)
    of_above = log_probs.gather(-1, above.unsqueeze(-1)).squeeze(-1)
    of_below = log_probs.gather(-1, above.unsqueeze(-1) - 1).squeeze(-1)
    return -(share * of_above + (1 - share) * of_below)
