"""Coefficients of losses: numbers, or tensors where several trials learn in one batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

Coefficient = float | Tensor
"""A number in a loss; a tensor `[]` where it is compiled, `[K]` of K members at once."""


def is_off(weight: Coefficient) -> bool:
    """Tell whether a term of a loss is left out, so that no gradient flows through it.

    Only a number says so: what a tensor holds may differ between members, and would be waited for.
    """
    return not isinstance(weight, Tensor) and weight == 0


def clipped(ratio: Tensor, clip: Coefficient) -> Tensor:
    """Return probability ratios within `[1 - clip, 1 + clip]`."""
    clip = of_rows(clip)
    return ratio.clamp(1 - clip, 1 + clip)  # type: ignore[arg-type]  # both are of one kind


def of_rows(number: Coefficient) -> Coefficient:
    """Return a coefficient as rows meet it: those of members, `[K]`, as `[K, 1]`."""
    return number.unsqueeze(-1) if isinstance(number, Tensor) and number.dim() else number


def traced(number: Coefficient, device: torch.device) -> Tensor:
    """Return a coefficient as a tensor `[]`, for losses that are compiled.

    A program holds a bound that is a number as a constant: each value of a schedule would be
    another program.
    """
    return torch.as_tensor(number, dtype=torch.float32, device=device)


def log(number: Coefficient) -> Coefficient:
    """Return the natural logarithm."""
    return torch.log(number) if isinstance(number, Tensor) else math.log(number)
