"""`Layers` compute what `nn.Sequential` does, hooks included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, spectral_norm

from trainables.core.networks.layers import Layers


class Doubled(nn.Linear):
    """A linear layer that is more than one."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def made(*layers: nn.Module) -> tuple[Layers, nn.Sequential]:
    """The same layers both ways."""
    return Layers(*layers), nn.Sequential(*layers)


ACTIVATIONS = [nn.Tanh(), nn.ReLU(), nn.SiLU(), nn.ELU(), nn.GELU(), nn.LeakyReLU(), nn.Identity()]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda layer: type(layer).__name__)
def test_outputs_and_gradients_are_those_of_sequential_to_the_bit(activation: nn.Module) -> None:
    layers, sequential = made(nn.Linear(3, 8), activation, Doubled(8, 8), nn.Linear(8, 2))
    results = []
    for network in (layers, sequential):
        x = torch.linspace(-2, 2, 12).view(4, 3).requires_grad_()
        y = network(x)
        gradients = torch.autograd.grad(y.square().sum(), [x, *network.parameters()])
        results.append([y, *gradients])
    for own, other in zip(*results, strict=True):
        assert torch.equal(own, other)


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "full_backward", "full_backward_pre"])
def test_hooks_on_a_layer_are_called(kind: str) -> None:
    layers = Layers(nn.Linear(3, 2), nn.Tanh())
    called = []
    for layer in layers:
        hook: Any = lambda *_: called.append(1)  # noqa: E731
        getattr(layer, f"register_{kind}_hook")(hook)
    layers(torch.ones(1, 3, requires_grad=True)).sum().backward()
    assert len(called) == 2


@pytest.mark.parametrize("norm", [spectral_norm, parametrizations.spectral_norm])
def test_weights_that_are_computed_from_others_are_computed_anew(norm: Any) -> None:
    layers, sequential = made(norm(nn.Linear(4, 4)))
    layers.eval()
    x = torch.ones(1, 4)
    before = layers(x)
    with torch.no_grad():
        next(p for name, p in layers.named_parameters() if "weight" in name).add_(1.0)
    after = layers(x)
    assert not torch.equal(before, after) and torch.equal(after, sequential(x))


def test_no_bias() -> None:
    layers, sequential = made(nn.Linear(3, 2, bias=False))
    x = torch.ones(2, 3)
    assert torch.equal(layers(x), sequential(x))
