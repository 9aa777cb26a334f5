"""Layers of K members at once: parameters `[K, …]`, rows `[K, …, F]`.

Their parameters are tensors that whoever computes with them has bound, see `LiftedModule`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm


class LiftedLinear(nn.Module):
    """K linear layers as one batched product.

    Args:
        layer: One of them.

    Attributes:
        weight: `[K, out, in]`.
        bias: `[K, out]`, or None.
    """

    weight: Tensor
    bias: Tensor | None = None

    def __init__(self, layer: nn.Linear):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs `[K, …, out]` of `[K, …, in]`."""
        rows = x if x.dim() == 3 else x.reshape(len(x), -1, x.shape[-1])
        weight = self.weight.mT
        if self.bias is None:
            out = torch.bmm(rows, weight)
        else:
            out = torch.baddbmm(self.bias.unsqueeze(1), rows, weight)
        return out if x.dim() == 3 else out.view(*x.shape[:-1], -1)


class LiftedLayerNorm(nn.Module):
    """K layer normalisations over the last axis.

    Args:
        layer: One of them.

    Attributes:
        weight: `[K, F]`, or None.
        bias: `[K, F]`, or None.
    """

    weight: Tensor | None = None
    bias: Tensor | None = None

    def __init__(self, layer: nn.LayerNorm):
        super().__init__()
        self._shape, self._eps = layer.normalized_shape, layer.eps

    def forward(self, x: Tensor) -> Tensor:
        """Return rows `[K, …, F]` with mean 0 and deviation 1, scaled and moved by each's own."""
        x = layer_norm(x, self._shape, eps=self._eps)
        middle = [1] * (x.dim() - 2)
        if self.weight is not None:
            x = x * self.weight.view(len(x), *middle, -1)
        return x if self.bias is None else x + self.bias.view(len(x), *middle, -1)


class LiftedTanh(nn.Module):
    """`tanh(x) = 2 sigmoid(2 x) - 1`, which differs by rounding alone.

    Of many rows PyTorch's `tanh` is most of a small network: in float32 it takes six times as long
    as its `sigmoid`.

    Args:
        layer: One of them.
    """

    def __init__(self, layer: nn.Tanh):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return values in (-1, 1), of any shape."""
        return _Tanh.apply(x) if torch.is_grad_enabled() else _tanh(x)


class _Tanh(torch.autograd.Function):
    """Its gradient needs what it gave, and no more."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        y = _tanh(x)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        [y] = context.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, y)


def _tanh(x: Tensor) -> Tensor:
    return torch.sigmoid(x * 2).mul_(2).sub_(1)


LIFTED: dict[type[nn.Module], Callable[..., nn.Module]] = {
    nn.Linear: LiftedLinear,
    nn.LayerNorm: LiftedLayerNorm,
    nn.Tanh: LiftedTanh,
}
"""What stands for a layer, made of one of the K."""
