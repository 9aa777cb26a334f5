"""Parameters of a network in one contiguous vector."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class FlatParameters:
    """Makes parameters and their gradients views into two vectors.

    The networks here are so small that an update costs mostly per-tensor overhead: zeroing,
    clipping and stepping one vector instead of a dozen tensors takes a tenth off a PPO update, and
    a target network follows by one operation.

    The network must not be moved to another device afterwards: that would cut the views.

    Args:
        parameters: Of one device and dtype.

    Attributes:
        vector: The parameters, `[P]`.
        gradient: Their gradients, `[P]`: `vector.grad`, always there.
        parameters: The network's own, in order; views into `vector`.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]):
        self.parameters = list(parameters)
        self.vector = nn.Parameter(torch.cat([p.detach().flatten() for p in self.parameters]))
        self.gradient = self.vector.grad = torch.zeros_like(self.vector)
        offset = 0
        for parameter in self.parameters:
            part = slice(offset, offset + parameter.numel())
            parameter.data = self.vector.data[part].view_as(parameter)
            parameter.grad = self.gradient[part].view_as(parameter)
            offset += parameter.numel()
