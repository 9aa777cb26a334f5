"""Target networks: copies that follow the networks they are made of."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from trainables.core.flat_parameters import FlatParameters


class TargetNetwork:
    """A copy of a network without gradients, updated by `theta' <- tau theta + (1 - tau) theta'`.

    Args:
        network: Copied as it is now, before its parameters are made flat.

    Attributes:
        network: The copy.
    """

    def __init__(self, network: nn.Module):
        self.network = copy.deepcopy(network)
        self._flat = FlatParameters(self.network.parameters())
        self.network.requires_grad_(False)

    @torch.no_grad()
    def update(self, online: FlatParameters, tau: float) -> None:
        """Move towards the online parameters: tau = 1 copies them, tau = 0 changes nothing."""
        self._flat.vector.lerp_(online.vector, tau)

    def get_state(self) -> Tensor:
        """A copy of the parameters, `[P]`."""
        return self._flat.vector.detach().clone()

    @torch.no_grad()
    def set_state(self, state: Tensor) -> None:
        """Take over `get_state`'s."""
        self._flat.vector.copy_(state)
