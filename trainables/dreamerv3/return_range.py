"""The range of returns, by which advantages are divided: so one entropy scale does for all worlds.

(Hafner et al., 2023, eq. 7)
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.core.learning.ranks import ALONE, Ranks

_LOW, _HIGH = 0.05, 0.95


@torch.no_grad()
def update_return_range(
    moving: Tensor, returns: Tensor, decay: float, ranks: Ranks = ALONE
) -> None:
    """Move the 5th and 95th percentile towards those of a batch, in place.

    Args:
        moving: The percentiles so far, `[2]`.
        returns: Of the batch, of any shape.
        decay: What stays of those so far.
        ranks: The learners whose returns count together.
    """
    everyone = torch.cat(ranks.gather(returns.flatten())) if ranks.size > 1 else returns.flatten()
    levels = torch.tensor([_LOW, _HIGH], device=returns.device)
    moving.lerp_(torch.quantile(everyone, levels), 1 - decay)


def return_scale(moving: Tensor) -> Tensor:
    """Return what advantages are divided by: the range, at least 1, so that noise stays small."""
    return (moving[1] - moving[0]).clamp_min(1.0)
