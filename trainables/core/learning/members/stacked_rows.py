"""Memory `[K, P]` whose rows the vectors of K members are, for as long as they learn together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.core.learning.flat_parameters import ALIGNED, FlatParameters


def stacked_rows(like: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return zeros `[K, W]`, and the K rows that tensors of one shape have there.

    W is at least their size: each row begins where a tensor of its own would, so that a member that
    computes alone for a while rounds as it always does. What is beyond stays 0.

    Args:
        like: One tensor of each member.
    """
    first = like[0]
    width = -(-first.numel() // ALIGNED) * ALIGNED
    memory = first.new_zeros(len(like), width, requires_grad=False)
    return memory, [row[: first.numel()].view(first.shape) for row in memory]


class StackedVectors:
    """Parameters of K members in one memory.

    Args:
        flats: Those of each, of equal sizes.

    Attributes:
        memory: `[K, W]`, see `stacked_rows`.
    """

    def __init__(self, flats: Sequence[FlatParameters]):
        self._flats = list(flats)
        self.memory, self._rows = stacked_rows([flat.vector.detach() for flat in flats])

    def take_in(self) -> None:
        """Make the members' vectors rows of the memory, where they are no longer or not yet."""
        for flat, row in zip(self._flats, self._rows, strict=True):
            if flat.vector.data_ptr() != row.data_ptr():
                flat.move(row, is_shared=True)


class StackedBuffers:
    """A buffer of K members in one memory, which each writes its own row of.

    Args:
        buffers: That of each, of one shape.

    Attributes:
        memory: `[K, …]`.
    """

    def __init__(self, buffers: Sequence[Tensor]):
        self._buffers = list(buffers)
        self.memory = torch.zeros_like(torch.stack(self._buffers))
        self._rows = list(self.memory)

    @torch.no_grad()
    def take_in(self) -> None:
        """Do as `StackedVectors.take_in` does."""
        for buffer, row in zip(self._buffers, self._rows, strict=True):
            if buffer.data_ptr() != row.data_ptr():
                row.copy_(buffer)
                buffer.data = row
