"""A network of K members at once, made of K networks that differ in their weights alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainables.core.data.features import Features, map_tensors
from trainables.core.learning.members.company import NotTogetherError
from trainables.core.learning.members.lifted_layers import LIFTED, SLOWER
from trainables.core.learning.members.stacked_rows import StackedBuffers
from trainables.core.networks.layers import BOUND


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
        module: One of the K networks.
        groups: Its parameters, in the order that they have in the vectors.
        vectors: Those of all members, `[K, W]` by group; W may be more than they are.
        modules: All K, where layers have noise that each draws itself.

    Raises:
        NotTogetherError: if a layer has no lifted form, or noise and not all of them are given.
    """

    def __init__(
        self,
        module: nn.Module,
        groups: Mapping[str, Sequence[nn.Parameter]],
        vectors: Mapping[str, Tensor],
        modules: Sequence[nn.Module] = (),
    ):
        if (reason := why_not_lifted(module)) is not None:
            raise NotTogetherError(reason)
        self._skeleton = copy.deepcopy(module)
        layers = {path: self._lifted(path) for path, _ in module.named_modules()}
        own_buffers = _own_buffers(module)
        if own_buffers and not modules:
            raise NotTogetherError("its network has noise on its weights")
        self._buffers = [
            self._bound_buffer(layers[path], name, [m.get_buffer(whole) for m in modules])
            for whole, (path, name) in own_buffers.items()
        ]
        names = {parameter: name for name, parameter in module.named_parameters()}
        self._vectors = dict(vectors)
        self._places: dict[str, list[_Place]] = {}
        self._sizes: dict[str, list[int]] = {}  # and behind the parameters what W has more
        for group, parameters in groups.items():
            places = []
            for parameter in parameters:
                path, _, name = names[parameter].rpartition(".")
                is_bare = type(module.get_submodule(path)) not in LIFTED
                # Beside the layers, as log sigma is, it meets rows [K, B, …].
                shape = (1, *parameter.shape) if is_bare else tuple(parameter.shape)
                places.append(_Place(layers[path], name, shape, parameter.numel()))
            self._places[group] = places
            sizes = [place.size for place in places]
            self._sizes[group] = [*sizes, vectors[group].shape[1] - sum(sizes)]
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
            parts = self._vectors[group].split(self._sizes[group], 1)
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


def check_alike(together: Callable[[], Any], alone: Sequence[Callable[[], Any]]) -> None:
    """Compare what a lifted network says with what each member's network says itself.

    Args:
        together: Returns tensors `[K, …]`: one, or several.
        alone: Each member's return `[…]`.

    Raises:
        NotTogetherError: if they differ by more than rounding, or it cannot be computed.
    """
    with torch.no_grad():
        try:
            found = _listed(together())
        except Exception as error:
            raise NotTogetherError(
                f"its network cannot be computed for several: {error}"
            ) from error
        for number, one in enumerate(alone):
            for whole, expected in zip(found, _listed(one()), strict=True):
                own = whole[number] if whole.dim() else whole
                if own.shape != expected.shape or not torch.allclose(
                    own, expected, rtol=1e-3, atol=1e-4, equal_nan=True
                ):
                    raise NotTogetherError("its network mixes what is of several members")


def features_of(features: Features, number: int) -> Features:
    """Return one member's rows of features `[K, B, …]`."""
    return map_tensors(lambda part: part[number], features)


def _listed(output: Any) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)
