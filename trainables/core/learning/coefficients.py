"""Coefficients of losses: numbers, or tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

Coefficient = float | Tensor
"""A number in a loss; a tensor `[]` where it is compiled."""


def is_off(weight: Coefficient) -> bool:
    """Tell whether a term of a loss is left out, so that no gradient flows through it.

    Only a number says so: what a tensor holds would be waited for.
    """
    return not isinstance(weight, Tensor) and weight == 0


def clipped(ratio: Tensor, clip: Coefficient) -> Tensor:
    """Return probability ratios within `[1 - clip, 1 + clip]`."""
    return ratio.clamp(1 - clip, 1 + clip)  # type: ignore[arg-type]  # both are of one kind


def traced(number: Coefficient, device: torch.device) -> Tensor:
    """Return a coefficient as a tensor `[]`, for losses that are compiled.

    A program holds a bound that is a number as a constant: each value of a schedule would be
    another program.
    """
    return torch.as_tensor(number, dtype=torch.float32, device=device)


def log(number: Coefficient) -> Coefficient:
    """Return the natural logarithm."""
    return torch.log(number) if isinstance(number, Tensor) else math.log(number)
