"""Layers of K members at once: parameters `[K, …]`, rows `[K, …, F]`.

Their parameters and buffers are tensors that `LiftedModule` has bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from trainables.core.networks.q_network import NoisyLinear


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
        return _linear(x, self.weight, self.bias)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = x if x.dim() == 3 else x.reshape(len(x), -1, x.shape[-1])
    if bias is None:
        out = torch.bmm(rows, weight.mT)
    else:
        out = torch.baddbmm(bias.unsqueeze(1), rows, weight.mT)
    return out if x.dim() == 3 else out.view(*x.shape[:-1], -1)


class LiftedNoisyLinear(nn.Module):
    """K noisy layers as one batched product, each with the noise that it has drawn itself.

    Args:
        layer: One of them.

    Attributes:
        weight: `[K, out, in]`.
        bias: `[K, out]`.
        weight_sigma: `[K, out, in]`.
        bias_sigma: `[K, out]`.
        eps_in: `[K, in]`.
        eps_out: `[K, out]`.
    """

    weight: Tensor
    bias: Tensor
    weight_sigma: Tensor
    bias_sigma: Tensor
    eps_in: Tensor
    eps_out: Tensor

    def __init__(self, layer: NoisyLinear):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs `[K, …, out]` of `[K, …, in]`."""
        noise = self.eps_out.unsqueeze(2) * self.eps_in.unsqueeze(1)
        weight = torch.addcmul(self.weight, self.weight_sigma, noise)
        return _linear(x, weight, torch.addcmul(self.bias, self.bias_sigma, self.eps_out))


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
    NoisyLinear: LiftedNoisyLinear,
    nn.LayerNorm: LiftedLayerNorm,
    nn.Tanh: LiftedTanh,
}
"""What stands for a layer, made of one of the K. Its parameters and buffers are each one's own."""

SLOWER: dict[type[nn.Module], str] = {
    nn.Conv2d: ", which takes up to twice as long for several members at once",
}
"""Layers that could be lifted, and why they are not."""
