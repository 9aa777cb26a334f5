"""Symlog and its inverse: numbers of any size and sign, squeezed (Hafner et al., 2023, eq. 9)."""

from __future__ import annotations

import torch
from torch import Tensor


def symlog(x: Tensor) -> Tensor:
    """Return `sign(x) ln(1 + |x|)`: near 0 the identity, far from it a logarithm."""
    return torch.sign(x) * torch.log1p(x.abs())


def symexp(x: Tensor) -> Tensor:
    """Return `sign(x) (exp(|x|) - 1)`, the inverse of `symlog`."""
    return torch.sign(x) * torch.expm1(x.abs())
