"""Multilayer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from trainables.core.networks.layers import Layers
from trainables.core.networks.undrawn import undrawn

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
