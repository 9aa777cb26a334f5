"""`StackedStepping`: Adam of K members on stacked vectors, each by its own settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from trainables.core.learning.members.stacked_rows import stacked_rows
from trainables.core.learning.stepping import FlushedDenormals, Stepping

_ADAMS: tuple[type[torch.optim.Optimizer], ...] = (torch.optim.Adam, torch.optim.AdamW)
_CLIPS = ("global_norm", "value")


def why_not_stacked(stepping: Stepping) -> str | None:
    """Return why an optimiser cannot step several members at once; None if it can."""
    kind = type(stepping.optimizer)
    if stepping.is_own or kind not in _ADAMS:
        return f"its optimizer is {kind.__name__}"
    if stepping.grad_clip is not None and stepping.grad_clip_by not in _CLIPS:
        return f"grad_clip_by = {stepping.grad_clip_by!r}"
    return None


class StackedStepping:
    """The optimisers of K members as one, whose moments are rows of one memory.

    Args:
        steppings: The optimiser of each, with the same groups.
        vectors: Parameters of all members, `[K, W]` by group, with their gradients.
    """

    def __init__(self, steppings: Sequence[Stepping], vectors: Mapping[str, Tensor]):
        self._steppings = list(steppings)
        is_decoupled = isinstance(steppings[0].optimizer, torch.optim.AdamW)
        self._function: Callable[..., None] = adamw if is_decoupled else adam
        self._groups = {
            name: _Group(vectors[name], steppings, number)
            for number, name in enumerate(steppings[0].groups)
        }
        self._clip_by = steppings[0].grad_clip_by
        self._settings: list[_Settings] = []

    def take_in(self) -> None:
        """Take in the members' moments where they are elsewhere, and their present settings."""
        for group in self._groups.values():
            group.take_in()
        settings = [one for group in self._groups.values() for one in group.settings()]
        if settings != self._settings:
            self._settings = settings
            self._same = [
                (one, [place for place, other in enumerate(settings) if other == one])
                for one in dict.fromkeys(settings)
            ]
        bounds = [math.inf if s.grad_clip is None else s.grad_clip for s in self._steppings]
        self._is_clipped = any(math.isfinite(bound) for bound in bounds)
        first = next(iter(self._groups.values())).vector
        self._bounds = first.new_tensor(bounds, requires_grad=False).unsqueeze(1)

    @torch.no_grad()
    def step(self) -> dict[str, Tensor]:
        """Clip and step; returns each group's norms before clipping, `[K]`.

        Rows with equal settings are one call of the kernel that an optimiser alone calls, too. Of
        many parameters it goes through memory once, where a chain of operations does so for each.
        """
        norms = {name: self._clipped(group.gradient) for name, group in self._groups.items()}
        rows = [row for group in self._groups.values() for row in group.rows()]
        with FlushedDenormals():
            for settings, places in self._same:
                columns = zip(*(rows[place] for place in places), strict=True)
                parameters, gradients, first, second, steps = map(list, columns)
                self._function(
                    parameters,
                    gradients,
                    first,
                    second,
                    [],
                    steps,
                    foreach=False,
                    fused=True,
                    amsgrad=False,
                    maximize=False,
                    **settings._asdict(),
                )
        return norms

    def _clipped(self, gradient: Tensor) -> Tensor:
        """Clip each member's gradient in place; returns the norms before, `[K]`."""
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        if self._is_clipped and self._clip_by == "value":
            gradient.clamp_(-self._bounds, self._bounds)
        elif self._is_clipped:
            scale = (self._bounds / (norm + 1e-6)).clamp_max(1.0)
            # Without a bound nothing is scaled, also where the norm overflows.
            gradient.mul_(torch.where(self._bounds.isinf(), 1.0, scale))
        return norm.squeeze(1)


class _Settings(NamedTuple):
    """What a group of one member is stepped by."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float


class _Group:
    """A group of parameters of all members, and its moments."""

    def __init__(self, vector: Tensor, steppings: Sequence[Stepping], number: int):
        self.vector = vector
        self._optimizers = [stepping.optimizer for stepping in steppings]
        self._number = number
        own = [self._parameter(optimizer).detach() for optimizer in self._optimizers]
        first, own_first = stacked_rows(own)
        second, own_second = stacked_rows(own)
        steps = list(torch.zeros(len(own), dtype=torch.float32, device=vector.device))
        self._states = [
            dict(zip(("step", "exp_avg", "exp_avg_sq"), rows, strict=True))
            for rows in zip(steps, own_first, own_second, strict=True)
        ]
        self._parameters = vector.detach().unbind()
        self._moments = (first.unbind(), second.unbind(), steps)

    @property
    def gradient(self) -> Tensor:
        """Of all members, `[K, W]`."""
        assert self.vector.grad is not None
        return self.vector.grad

    def rows(self) -> Iterator[tuple[Tensor, ...]]:
        """Yield parameters, gradient, moments `[W]` and steps `[]` of each member."""
        return zip(self._parameters, self.gradient.unbind(), *self._moments, strict=True)

    def settings(self) -> Iterator[_Settings]:
        """Yield those of each member."""
        for optimizer in self._optimizers:
            of = optimizer.param_groups[self._number]
            beta1, beta2 = of["betas"]
            yield _Settings(float(of["lr"]), beta1, beta2, of["eps"], of["weight_decay"])

    @torch.no_grad()
    def take_in(self) -> None:
        """Bring in the members' moments, as `StackedVectors` does their parameters."""
        for optimizer, rows in zip(self._optimizers, self._states, strict=True):
            state = optimizer.state[self._parameter(optimizer)]
            for name, row in rows.items():
                if (before := state.get(name)) is row:
                    continue
                row.zero_()  # as torch begins it
                if before is not None:
                    row.copy_(before)
                state[name] = row

    def _parameter(self, optimizer: torch.optim.Optimizer) -> Tensor:
        [parameter] = optimizer.param_groups[self._number]["params"]
        return parameter
