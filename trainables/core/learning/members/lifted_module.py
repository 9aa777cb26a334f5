"""A network of K members at once, made of K networks that differ in their weights alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from trainables.core.learning.flat_parameters import FlatParameters
from trainables.core.learning.members.lifted_layers import LIFTED, SLOWER
from trainables.core.learning.members.stacked_rows import StackedBuffers
from trainables.core.networks.mlp import BOUND


class NotLiftedError(Exception):
    """A network cannot be computed for several members at once; the message says why."""


def structure(module: nn.Module) -> tuple[Any, ...]:
    """Return what networks have in common if weights alone, and the noise on them, may differ."""
    layers = tuple((name, type(one)) for name, one in module.named_modules())
    shapes = tuple((name, tuple(p.shape), p.dtype) for name, p in module.named_parameters())
    alike = tuple(
        (f"{path}.{name}", buffer.dtype, tuple(buffer.flatten().tolist()))
        for path, layer in module.named_modules()
        if type(layer) not in LIFTED
        for name, buffer in layer.named_buffers(recurse=False)
    )
    return layers, shapes, alike


def why_not_lifted(module: nn.Module) -> str | None:
    """Return why a network cannot be lifted, as far as its layers say; None if it may be."""
    if getattr(module, "is_recurrent", False):
        return "its network has a memory"
    for name, layer in module.named_modules():
        own = dict(layer.named_parameters(recurse=False))
        if type(layer) in LIFTED or all(p.dim() == 1 for p in own.values()):
            continue
        why = SLOWER.get(type(layer), "")
        return f"its layer {name or 'itself'} is a {type(layer).__name__}{why}"
    return None


class LiftedModule:
    """A network over rows `[K, B, …]`, whose parameters are parts of stacked vectors.

    It is a copy of one of the K in which layers with parameters are replaced by those of
    `lifted_layers`, so that the network's own `forward` says what is computed.

    Args:
        modules: The K networks.
        groups: The parameters of the first one.
        vectors: Those of all members, `[K, W]` by group, see `StackedVectors`.

    Raises:
        NotLiftedError: if a layer has no lifted form, or a parameter no group.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        groups: Mapping[str, FlatParameters],
        vectors: Mapping[str, Tensor],
    ):
        module = modules[0]
        if (reason := why_not_lifted(module)) is not None:
            raise NotLiftedError(reason)
        self._skeleton = copy.deepcopy(module)
        layers = {path: self._lifted(path) for path, _ in module.named_modules()}
        self._buffers = [
            self._bound_buffer(layers[path], name, [m.get_buffer(whole) for m in modules])
            for whole, (path, name) in _own_buffers(module).items()
        ]
        names = {parameter: name for name, parameter in module.named_parameters()}
        followed = {p for flat in groups.values() for p in flat.parameters}
        if apart := [name for parameter, name in names.items() if parameter not in followed]:
            raise NotLiftedError(f"its parameter {apart[0]} is no part of what is stacked")
        self._vectors = dict(vectors)
        self._places: dict[str, list[_Place]] = {}
        for group, flat in groups.items():
            places = []
            for parameter in flat.parameters:
                path, _, name = names[parameter].rpartition(".")
                is_bare = type(module.get_submodule(path)) not in LIFTED
                # Beside the layers, as log sigma is, it meets rows [K, B, …].
                shape = (1, *parameter.shape) if is_bare else tuple(parameter.shape)
                places.append(_Place(layers[path], name, shape, parameter.numel()))
            self._places[group] = places
        bound: dict[nn.Module, list[str]] = {layer: [] for layer in self._skeleton.modules()}
        for places in self._places.values():
            for place in places:
                bound[place.layer].append(place.name)
        for layer, own in bound.items():
            layer.__dict__[BOUND] = tuple(own)

    def take_in(self) -> None:
        """Bring in what the members have of their own beside parameters."""
        for buffer in self._buffers:
            buffer.take_in()

    def _bound_buffer(
        self, layer: nn.Module, name: str, buffers: Sequence[Tensor]
    ) -> StackedBuffers:
        stacked = StackedBuffers(buffers)
        layer.__dict__[name] = stacked.memory
        return stacked

    def _lifted(self, path: str) -> nn.Module:
        """Return what a layer of the copy has become."""
        layer = self._skeleton.get_submodule(path)
        if (make := LIFTED.get(type(layer))) is None:
            for name in [name for name, _ in layer.named_parameters(recurse=False)]:
                delattr(layer, name)
            return layer
        parent, _, name = path.rpartition(".")
        setattr(self._skeleton.get_submodule(parent), name, lifted := make(layer))
        return lifted

    def bound(self) -> nn.Module:
        """Return the network with its parameters as they are now, for one computation.

        They are views of the vectors that autograd knows as such: the gradient of each vector is
        one tensor, not one for each layer.
        """
        for group, places in self._places.items():
            sizes, vector = [place.size for place in places], self._vectors[group]
            parts = vector.split([*sizes, vector.shape[1] - sum(sizes)], 1)
            for place, part in zip(places, parts[:-1], strict=True):
                # No parameter any more, so that no `__setattr__` of a module has to look at it.
                place.layer.__dict__[place.name] = part.view(len(part), *place.shape)
        return self._skeleton


def _own_buffers(module: nn.Module) -> dict[str, tuple[str, str]]:
    """Return layer and name of the buffers that each member has its own of, by their path."""
    return {
        f"{path}.{name}" if path else name: (path, name)
        for path, layer in module.named_modules()
        if type(layer) in LIFTED
        for name, _ in layer.named_buffers(recurse=False)
    }


class _Place(NamedTuple):
    """Where a part of a vector goes."""

    layer: nn.Module
    name: str
    shape: tuple[int, ...]
    size: int
