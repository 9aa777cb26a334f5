"""Running statistics of tensors, over all ranks, that are saved with the networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainables.core.learning.ranks import Ranks

_LEAST_STD = 1e-6
_ROWS_AT_ONCE = 256  # images of a rollout in float64 would take gigabytes


class RunningStatistics(nn.Module):
    """Count, mean and squared deviations of rows `[M, *shape]` (Chan et al., 1979), in float64.

    Args:
        shape: Of one row.
    """

    count: Tensor
    mean: Tensor
    m2: Tensor

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(*shape, dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(*shape, dtype=torch.float64))

    @torch.no_grad()
    def update(self, rows: Tensor, ranks: Ranks) -> None:
        """Count the rows of all ranks, `[M, *shape]`; M may be 0 and differ between ranks."""
        number = ranks.sum(torch.tensor(float(len(rows)), dtype=torch.float64))
        if not number:
            return
        # From the mean so far: sums of numbers far from 0 would be rounded.
        offset, squares = torch.zeros_like(self.mean), torch.zeros_like(self.mean)
        for part in rows.split(_ROWS_AT_ONCE):
            offset += (part - self.mean).sum(0)
        number = number.to(offset.device)
        mean = self.mean + ranks.sum(offset) / number
        for part in rows.split(_ROWS_AT_ONCE):
            squares += (part - mean).square().sum(0)
        total = self.count + number
        delta = mean - self.mean
        self.m2 += ranks.sum(squares) + delta.square() * (self.count * number / total)
        self.mean += delta * (number / total)
        self.count.copy_(total)

    @property
    def std(self) -> Tensor:
        """Standard deviations, `[*shape]`; 1 of what has not varied yet."""
        std = (self.m2 / (self.count - 1).clamp_min(1)).sqrt()
        return torch.where(std > _LEAST_STD, std, torch.ones_like(std))

    def normalized(self, rows: Tensor) -> Tensor:
        """Return rows `[…, *shape]` with mean 0 and deviation 1, float32."""
        return ((rows - self.mean) / self.std).to(torch.float32)


class RunningSize(nn.Module):
    """The root mean square of all numbers so far."""

    count: Tensor
    squares: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("squares", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, numbers: Tensor, ranks: Ranks) -> None:
        """Take in the numbers of all ranks, `[M]`."""
        squares = numbers.double().square().sum()
        both = ranks.sum(torch.stack([torch.full_like(squares, len(numbers)), squares]))
        self.count += both[0]
        self.squares += both[1]

    @property
    def size(self) -> Tensor:
        """Root mean square; 1 while there is nothing but zeros."""
        mean = self.squares / self.count.clamp_min(1)
        return torch.where(mean > 0, mean.sqrt(), torch.ones_like(mean)).to(torch.float32)
