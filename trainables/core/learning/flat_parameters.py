"""Parameters of a network in one contiguous vector, and target networks that follow them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from trainables.core.errors import ConfigError

ALIGNED = 16
"""Numbers of 4 bytes in a line of a processor's cache."""


class FlatParameters:
    """Makes parameters and their gradients views into two vectors.

    The networks here are so small that an update costs mostly per-tensor overhead: zeroing,
    clipping and stepping one vector instead of a dozen tensors takes a tenth off a PPO update, and
    a target network follows by one operation.

    The network must not be moved to another device afterwards: that would cut the views.

    Args:
        parameters: Of one device and dtype.
        gradient: Where their gradients are, `[P]` of zeros; None makes it.

    Attributes:
        vector: The parameters, `[P]`.
        gradient: Their gradients, `[P]`: `vector.grad`, always there.
        parameters: The network's own; views into `vector`.
        is_shared: Whether their memory is a part of what others have, too.
    """

    is_shared = False

    def __init__(self, parameters: Iterable[nn.Parameter], gradient: Tensor | None = None):
        # Those that end at an odd place come last: a network whose matrices are not aligned in
        # memory rounds otherwise than a loaded copy of it, by kernels that depend on it.
        self.parameters = sorted(parameters, key=lambda p: p.numel() % ALIGNED != 0)
        self.vector = nn.Parameter(torch.cat([p.detach().flatten() for p in self.parameters]))
        if gradient is None:
            gradient = torch.zeros_like(self.vector)
        self.gradient = self.vector.grad = gradient
        self._gradients: list[Tensor] = []
        self._sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, part in zip(self.parameters, gradient.split(self._sizes), strict=True):
            parameter.grad = part.view_as(parameter)
            self._gradients.append(parameter.grad)
        self._place(self.vector.data)
        self._places = self._places_now()

    @torch.no_grad()
    def move(self, memory: Tensor, *, is_shared: bool = False) -> None:
        """Go on in other memory, `[P]` of the same device and dtype; the values go along.

        Vector and parameters stay the objects that they are.

        Args:
            memory: Where to.
            is_shared: Whether it is a part of what others have, too.
        """
        self.is_shared = is_shared
        memory.copy_(self.vector)
        self._place(memory)

    def _place(self, memory: Tensor) -> None:
        self.vector.data = memory
        for parameter, part in zip(self.parameters, memory.split(self._sizes), strict=True):
            parameter.data = part.view_as(parameter)

    def collect_gradients(self) -> None:
        """Take in gradients that are no views, which `zero_grad` and `p.grad = …` leave behind.

        Where a parameter has none, it is 0.

        Raises:
            ConfigError: if the parameters themselves are no views any more: to step the vector
                would change nothing.
        """
        for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
            theirs = parameter.grad
            if theirs is gradient:
                continue
            if theirs is None:
                gradient.zero_()
            else:
                gradient.copy_(theirs.detach())
            parameter.grad = gradient
        theirs = self.vector.grad
        if theirs is not self.gradient:
            if theirs is not None:
                self.gradient.copy_(theirs.detach())
            self.vector.grad = self.gradient
        if self._places_now() != self._places:
            raise ConfigError(
                "learner_class: parameters of the network were moved or replaced after the learner "
                "was made, so that its steps would not change them; do so before"
            )

    def tensors(self) -> Iterator[Tensor]:
        """Yield the vectors and all views into them."""
        yield from (self.vector, self.gradient, *self.parameters, *self._gradients)

    def _places_now(self) -> list[int]:
        """Return where in the vector the parameters are, bytes; its own memory may move."""
        first = self.vector.data_ptr()
        return [parameter.data_ptr() - first for parameter in self.parameters]


def flat_groups(
    by_group: Mapping[str, Iterable[nn.Parameter]],
) -> tuple[Tensor, dict[str, FlatParameters]]:
    """Return the gradient of groups of parameters as one vector `[P]`, and each group in it."""
    parameters = {name: list(group) for name, group in by_group.items()}
    sizes = [sum(p.numel() for p in group) for group in parameters.values()]
    first = next(p for group in parameters.values() for p in group)
    gradient = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
    parts = gradient.split(sizes)
    return gradient, {
        name: FlatParameters(group, part)
        for (name, group), part in zip(parameters.items(), parts, strict=True)
    }


def collect_gradients(groups: Iterable[FlatParameters]) -> None:
    """Collect the gradients of each; see `FlatParameters.collect_gradients`."""
    for flat in groups:
        flat.collect_gradients()


def zero_gradients(groups: Iterable[FlatParameters], gradient: Tensor) -> None:
    """Set the gradient of all groups to 0, in place: theirs are views into it."""
    collect_gradients(groups)
    gradient.zero_()


class TargetNetwork:
    """A copy of a network without gradients, updated by `theta' <- tau theta + (1 - tau) theta'`.

    Args:
        network: Copied as it is now, before its parameters are made flat.
        followed: Those of its parameters that the copy's follow; None: all.

    Attributes:
        network: The copy.
        flat: Those of its parameters that follow.
    """

    def __init__(self, network: nn.Module, followed: Iterable[nn.Parameter] | None = None):
        self.network = copy.deepcopy(network)
        copies = dict(zip(network.parameters(), self.network.parameters(), strict=True))
        self.flat = FlatParameters(copies[p] for p in (followed or copies))
        self.network.requires_grad_(False)

    @torch.no_grad()
    def update(self, online: FlatParameters, tau: float) -> None:
        """Move towards the online parameters: tau = 1 copies them, tau = 0 changes nothing."""
        self.flat.vector.lerp_(online.vector, tau)

    def get_state(self) -> Tensor:
        """Return a copy of the parameters, `[P]`."""
        return self.flat.vector.detach().clone()

    @torch.no_grad()
    def set_state(self, state: Tensor) -> None:
        """Take over `get_state`'s."""
        self.flat.vector.copy_(state)
