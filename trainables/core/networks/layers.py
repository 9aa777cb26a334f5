"""`Layers`: `nn.Sequential` without what calling a module costs beside the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_FUNCTIONS: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Tanh: torch.tanh,
    nn.ReLU: torch.relu,
    nn.SiLU: functional.silu,
}


class Layers(nn.Sequential):
    """Layers that run one after another, to the bit as `nn.Sequential` runs them.

    Of a few rows, as acting has them, a linear layer's product takes as long as the call of its
    module. Linear layers and activations of PyTorch itself are therefore computed here, unless
    somebody has put a hook on them; all other layers are called.
    """

    def forward(self, x: Any) -> Any:
        for layer in self._modules.values():
            assert layer is not None
            kind = type(layer)
            if _is_hooked(layer):
                x = layer(x)
            elif kind is nn.Linear:
                own = layer._parameters
                x = functional.linear(x, own["weight"], own["bias"])  # type: ignore[arg-type]
            elif (function := _FUNCTIONS.get(kind)) is not None:
                x = function(x)
            else:
                x = layer(x)
        return x


def _is_hooked(layer: nn.Module) -> bool:
    """Tell whether calling a layer does more than its `forward`."""
    return bool(
        layer._forward_pre_hooks
        or layer._forward_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
    )
