"""Layers with drawn weights, and `Layers`: `nn.Sequential` at less than a module's cost a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import linear

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


@contextmanager
def seeded_layers(generator: torch.Generator | None) -> Iterator[None]:
    """Seed the global stream for layers that are made meanwhile, and leave it as it was.

    Args:
        generator: The CPU generator that the seed is drawn from; None is the global stream itself.
    """
    with torch.random.fork_rng(devices=[]):
        seed = torch.randint(2**62, (), generator=generator)
        torch.manual_seed(int(seed))
        yield


_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "leaky_relu": nn.LeakyReLU,
    "linear": nn.Identity,
}


def mlp(
    num_inputs: int,
    hiddens: list[int],
    activation: str,
    *,
    num_outputs: int | None = None,
    initializer: str = "orthogonal",
    generator: torch.Generator | None = None,
) -> Layers:
    """Return layers `num_inputs -> hiddens… (-> num_outputs)`, each hidden one with an activation.

    Args:
        num_inputs: Width of the input.
        hiddens: Widths of the hidden layers.
        activation: A name of `ACTIVATIONS` in core.config.model.
        num_outputs: Width of a last linear layer; None leaves it out.
        initializer: "orthogonal" (gain sqrt(2), zero biases) or "default" (PyTorch's).
        generator: Random stream of the initial weights.
    """
    layers: list[nn.Module] = []
    widths = [num_inputs, *hiddens]
    for fan_in, fan_out in pairwise(widths):
        layers.append(linear_layer(fan_in, fan_out, math.sqrt(2), initializer, generator))
        if activation != "linear":
            layers.append(activation_layer(activation))
    if num_outputs is not None:
        layers.append(linear_layer(widths[-1], num_outputs, 1.0, initializer, generator))
    return Layers(*layers)


BOUND = "bound_names"
"""The attribute of layers whose parameters are tensors that somebody binds anew: their names."""


@contextmanager
def _detached(network: nn.Module) -> Iterator[None]:
    """Have bound parameters of a network without their gradients."""
    own = [(layer.__dict__, name) for layer in network.modules() for name in layer.__dict__[BOUND]]
    before = [values[name] for values, name in own]
    for values, name in own:
        values[name] = values[name].detach()
    try:
        yield
    finally:
        for (values, name), value in zip(own, before, strict=True):
            values[name] = value


def frozen(network: nn.Sequential, x: Any) -> Tensor:
    """Return the network's output where gradients flow to `x`, but not to its parameters.

    Half of the backward pass is not done at all, and no gradient has to be thrown away.

    Args:
        network: The layers, of which the first may be an encoder.
        x: The input of the first layer.
    """
    if BOUND in network.__dict__:
        with _detached(network):
            output: Tensor = network(x)
            return output
    for layer in network:
        if isinstance(layer, nn.Linear):
            x = linear(x, layer.weight.detach(), layer.bias.detach())
        elif parameters := dict(layer.named_parameters()):  # an encoder
            detached = {name: parameter.detach() for name, parameter in parameters.items()}
            x = functional_call(layer, detached, (x,))
        else:
            x = layer(x)
    return x


def activation_layer(activation: str) -> nn.Module:
    """Return the layer of an activation's name."""
    return _ACTIVATIONS[activation]()


def linear_layer(
    fan_in: int,
    fan_out: int,
    gain: float = 1.0,
    initializer: str = "orthogonal",
    generator: torch.Generator | None = None,
) -> nn.Linear:
    """Return a linear layer with weights of the given initialisation; see `mlp`."""
    layer = undrawn(nn.Linear, fan_in, fan_out)
    initialize(layer, gain, initializer, generator)
    return layer


def initialize(
    layer: nn.Linear | nn.Conv2d,
    gain: float,
    initializer: str,
    generator: torch.Generator | None = None,
) -> None:
    """Draw a layer's weights and biases anew; see `mlp`."""
    assert layer.bias is not None
    if initializer == "orthogonal":
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
    else:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
