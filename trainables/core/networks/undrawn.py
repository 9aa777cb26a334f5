"""Layers whose weights are not drawn while they are made: whoever makes them does that."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import nn

_Layer = TypeVar("_Layer", nn.Linear, nn.Conv2d)


def undrawn(layer_class: type[_Layer], *args: Any, **options: Any) -> _Layer:
    """Return a layer with weights of no meaning; no random stream has moved.

    `torch.nn.utils.skip_init` does this by way of the device `meta`, for whose first tensor PyTorch
    imports sympy: a third of a second in each process.

    Args:
        layer_class: The layer's class; its `reset_parameters` is not called.
        args: Its arguments.
        options: Its arguments by name.
    """

    class _Undrawn(layer_class):  # type: ignore[misc,valid-type]
        def reset_parameters(self) -> None:
            """Leave the weights as they are."""

    layer = _Undrawn(*args, **options)
    layer.__class__ = layer_class  # type: ignore[assignment]
    return layer
