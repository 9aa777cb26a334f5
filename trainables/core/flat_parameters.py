"""All parameters of a module in one contiguous vector."""

from __future__ import annotations

import torch
from torch import nn


class FlatParameters:
    """Makes a module's parameters and gradients views into two vectors.

    The networks here are so small that an update costs mostly per-tensor overhead: zeroing,
    clipping and stepping one vector instead of a dozen tensors takes a tenth off a PPO update.

    The module must not be moved to another device afterwards: that would cut the views.

    Attributes:
        vector: The parameters, `[P]`.
        gradient: Their gradients, `[P]`: `vector.grad`, always there.
        parameters: The module's own, in order; views into `vector`.
    """

    def __init__(self, module: nn.Module):
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.vector = nn.Parameter(torch.cat([p.detach().flatten() for p in self.parameters]))
        self.gradient = self.vector.grad = torch.zeros_like(self.vector)
        offset = 0
        for parameter in self.parameters:
            part = slice(offset, offset + parameter.numel())
            parameter.data = self.vector.data[part].view_as(parameter)
            parameter.grad = self.gradient[part].view_as(parameter)
            offset += parameter.numel()
