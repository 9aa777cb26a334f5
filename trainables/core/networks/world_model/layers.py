"""Layers of the world model: linear ones, normalised, and in blocks.

Under `torch.autocast` products are taken in fewer bits, and what comes out of them is given as the
input was: norms, activations, distributions and losses see float32 in any case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, linear, silu

from trainables.core.networks.layers import undrawn
from trainables.core.networks.world_model.latents import Drawn

_EPS = 1e-4
# Standard deviation of a standard normal that is cut off at two of them.
_CUT_OFF_STD = 0.87962566103423978
# Of drawn latents that are made zeros and ones at a time.
_ROWS = 1024


class RMSNorm(nn.Module):
    """Divide by the root mean square over the last axis, and scale (Zhang and Sennrich, 2019).

    Args:
        width: Width of the last axis.
    """

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return `x / sqrt(mean(x²) + 1e-4) * scale`, `[..., width]`."""
        return scaled_to_one(x, self.scale, -1)


def scaled_to_one(x: Tensor, scale: Tensor, dim: int) -> Tensor:
    """Return `x / sqrt(mean(x²) + 1e-4) * scale` with the mean over one axis.

    Args:
        x: Any numbers.
        scale: As many as that axis is long, of a shape that goes with x.
        dim: The axis.
    """
    normed: Tensor = _ScaledToOne.apply(x, scale, dim)
    return normed


class _ScaledToOne(torch.autograd.Function):
    """On a CPU torch's own takes six passes forward, each with new memory, and more backward.

    With large inputs that memory costs more than all the arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, dim: int) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
        factor = length.square_().div_(x.shape[dim]).add_(_EPS).rsqrt_()
        ctx.save_for_backward(x, scale, factor)
        ctx.dim = dim
        return (x * factor).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale, factor = ctx.saved_tensors
        of_scale = (x * factor).mul_(gradient)
        # What x adds to its own root mean square.
        along = (of_scale * scale).mean(ctx.dim, keepdim=True).mul_(factor)
        of_x = (gradient * scale).addcmul_(x, along, value=-1).mul_(factor)
        return of_x, of_scale.sum_to_size(scale.shape), None


class Linear(nn.Linear):
    """A linear layer whose output is of its input's dtype."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., num_outputs]` of `[..., num_inputs]`."""
        return super().forward(x).to(x.dtype)


class BlockLinear(nn.Module):
    """A linear layer whose matrix is block-diagonal: each block sees a part of the input only.

    Of `num_blocks` blocks it has that fraction of the weights of a dense layer.

    Args:
        num_inputs: Width of the input, a multiple of the blocks.
        num_outputs: Width of the output, likewise.
        num_blocks: Number of blocks.
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        num_blocks: int,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.num_blocks = num_blocks
        fan_in, fan_out = num_inputs // num_blocks, num_outputs // num_blocks
        self.weight = nn.Parameter(torch.empty(num_blocks, fan_in, fan_out))
        self.bias = nn.Parameter(torch.zeros(num_outputs))
        initialize(self.weight, fan_in, 1.0, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, num_outputs]` of `[B, num_inputs]`."""
        parts = x.unflatten(-1, (self.num_blocks, -1)).transpose(0, 1)
        products = torch.bmm(parts, self.weight).to(x.dtype)
        return products.transpose(0, 1).flatten(1) + self.bias


class Normed(nn.Module):
    """A linear layer, RMSNorm and SiLU: the layer that every network here is made of.

    Args:
        num_inputs: Width of the input.
        width: Width of the output.
        generator: Random stream of the initial weights.
    """

    def __init__(self, num_inputs: int, width: int, generator: torch.Generator | None = None):
        super().__init__()
        self.linear = linear_layer(num_inputs, width, 1.0, generator)
        self.norm = RMSNorm(width)

    def forward(self, x: Tensor | Drawn) -> Tensor:
        """Return `[..., width]` of `[..., num_inputs]`."""
        outputs = self.linear(x) if isinstance(x, Tensor) else linear_of_drawn(self.linear, x)
        return silu(self.norm(outputs))


def linear_of_drawn(layer: nn.Linear, drawn: Drawn) -> Tensor:
    """Return what a layer makes of `drawn.features`, to rounding, `[..., num_outputs]`.

    All but one of a variable's inputs are 0: the columns of the others are added up, and no product
    with all the zeros is computed.
    """
    num_latents = drawn.classes.shape[-1] * drawn.num_classes
    of_h, of_z = layer.weight.split([layer.in_features - num_latents, num_latents], -1)
    first = torch.arange(0, num_latents, drawn.num_classes, device=drawn.classes.device)
    added: Tensor = _AddedColumns.apply(of_z, (drawn.classes + first).flatten(0, -2))
    added = added.view(*drawn.classes.shape[:-1], -1)
    if drawn.h is None:
        return added + layer.bias
    return linear(drawn.h, of_h, layer.bias).to(added.dtype).add_(added)


class _AddedColumns(torch.autograd.Function):
    """Sums of columns of a matrix `[num_outputs, M]`: `[N, num_outputs]` of the columns `[N, S]`.

    Its gradient is a product with zeros and ones all the same: adding to columns one by one takes
    longer. They are made of few rows at a time, so that their memory stays at hand.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(columns)
        ctx.num_columns = matrix.shape[1]
        return embedding_bag(columns, matrix.t().contiguous(), mode="sum")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        [columns] = ctx.saved_tensors
        of_matrix = gradient.new_zeros(gradient.shape[1], ctx.num_columns)
        ones = gradient.new_zeros(min(_ROWS, len(columns)), ctx.num_columns)
        for rows, own in zip(columns.split(_ROWS), gradient.split(_ROWS), strict=True):
            now = ones[: len(rows)].zero_().scatter_(1, rows, 1.0)
            of_matrix.addmm_(own.t(), now)
        return of_matrix, None


def mlp(
    num_inputs: int,
    hiddens: Sequence[int],
    num_outputs: int | None = None,
    scale: float = 1.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Return normalised layers, and a linear one behind them.

    Args:
        num_inputs: Width of the input.
        hiddens: Widths of the normalised layers.
        num_outputs: Width of the linear layer; None leaves it out.
        scale: Factor of its initial weights; 0: its output is 0 at the start.
        generator: Random stream of the initial weights.
    """
    layers: list[nn.Module] = []
    for width in hiddens:
        layers.append(Normed(num_inputs, width, generator))
        num_inputs = width
    if num_outputs is not None:
        layers.append(linear_layer(num_inputs, num_outputs, scale, generator))
    return nn.Sequential(*layers)


def linear_layer(
    num_inputs: int, num_outputs: int, scale: float, generator: torch.Generator | None = None
) -> nn.Linear:
    """Return a linear layer with initial weights of `initialize`, and no bias at the start."""
    layer = undrawn(Linear, num_inputs, num_outputs)
    initialize(layer.weight, num_inputs, scale, generator)
    nn.init.zeros_(layer.bias)
    return layer


@torch.no_grad()
def initialize(
    weight: Tensor, fan_in: int, scale: float, generator: torch.Generator | None = None
) -> None:
    """Draw weights of variance `scale² / fan_in`: normal, and cut off at two deviations."""
    if scale == 0:
        weight.zero_()
        return
    std = scale / math.sqrt(fan_in) / _CUT_OFF_STD
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std, generator=generator)
