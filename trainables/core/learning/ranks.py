"""`Ranks`: the learners that compute one gradient together."""

from __future__ import annotations

from torch import Tensor


class Ranks:
    """What learners that train together tell each other. This one is alone.

    Every rank has rows of its own and the same weights. Sums over all of them make a gradient, and
    so the next weights, the same on each.

    Attributes:
        rank: This learner, from 0.
        size: How many there are.
    """

    rank = 0
    size = 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all ranks, in place; returns it."""
        return tensor

    def gather(self, rows: Tensor) -> list[Tensor]:
        """Return the rows `[B, ...]` of every rank, in order of rank; their numbers may differ."""
        return [rows]


ALONE = Ranks()
