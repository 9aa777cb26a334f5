"""Target networks: copies that follow the networks they are made of."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainables.core.learning.flat_parameters import FlatParameters


class TargetNetwork:
    """A copy of a network without gradients, updated by `theta' <- tau theta + (1 - tau) theta'`.

    Args:
        network: Copied as it is now, before its parameters are made flat.
        followed: Those of its parameters that the copy's follow; None: all.

    Attributes:
        network: The copy.
    """

    def __init__(self, network: nn.Module, followed: Iterable[nn.Parameter] | None = None):
        self.network = copy.deepcopy(network)
        copies = dict(zip(network.parameters(), self.network.parameters(), strict=True))
        self._flat = FlatParameters(copies[p] for p in (followed or copies))
        self.network.requires_grad_(False)

    @torch.no_grad()
    def update(self, online: FlatParameters, tau: float) -> None:
        """Move towards the online parameters: tau = 1 copies them, tau = 0 changes nothing."""
        self._flat.vector.lerp_(online.vector, tau)

    def get_state(self) -> Tensor:
        """Return a copy of the parameters, `[P]`."""
        return self._flat.vector.detach().clone()

    @torch.no_grad()
    def set_state(self, state: Tensor) -> None:
        """Take over `get_state`'s."""
        self._flat.vector.copy_(state)
