"""`StackedStepping`: Adam of K members on stacked vectors, each by its own settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.core.learning.denormals import FlushedDenormals
from trainables.core.learning.members.stacked_rows import stacked_rows
from trainables.core.learning.stepping import Stepping

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
        self._is_decoupled = isinstance(steppings[0].optimizer, torch.optim.AdamW)
        self._groups = {
            name: _Group(vectors[name], steppings, number)
            for number, name in enumerate(steppings[0].groups)
        }
        self._clip_by = steppings[0].grad_clip_by

    def take_in(self) -> None:
        """Take in the members' moments where they are elsewhere, and their present settings."""
        bounds = [math.inf if s.grad_clip is None else s.grad_clip for s in self._steppings]
        self._is_clipped = any(math.isfinite(bound) for bound in bounds)
        for group in self._groups.values():
            group.take_in()
        first = next(iter(self._groups.values())).vector
        self._bounds = first.new_tensor(bounds, requires_grad=False).unsqueeze(1)

    @torch.no_grad()
    def step(self) -> dict[str, Tensor]:
        """Clip and step; returns each group's norms before clipping, `[K]`."""
        norms = {}
        for name, group in self._groups.items():
            gradient = group.vector.grad
            assert gradient is not None
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            if self._is_clipped and self._clip_by == "value":
                gradient.clamp_(-self._bounds, self._bounds)
            elif self._is_clipped:
                gradient.mul_((self._bounds / (norm + 1e-6)).clamp_max(1.0))
            norms[name] = norm.squeeze(1)
        with FlushedDenormals():
            for group in self._groups.values():
                group.step(self._is_decoupled)
        return norms


class _Group:
    """A group of parameters of all members, and its moments."""

    def __init__(self, vector: Tensor, steppings: Sequence[Stepping], number: int):
        self.vector = vector
        self._optimizers = [stepping.optimizer for stepping in steppings]
        self._number = number
        own = [self._parameter(optimizer).detach() for optimizer in self._optimizers]
        self._first, first = stacked_rows(own)
        self._second, second = stacked_rows(own)
        self._denominator = torch.zeros_like(self._first)
        self._steps = torch.zeros(len(own), dtype=torch.float32, device=vector.device)
        self._rows = [
            dict(zip(("step", "exp_avg", "exp_avg_sq"), rows, strict=True))
            for rows in zip(self._steps, first, second, strict=True)
        ]
        self._settings: list[tuple[Any, ...]] = []

    def _parameter(self, optimizer: torch.optim.Optimizer) -> Tensor:
        [parameter] = optimizer.param_groups[self._number]["params"]
        return parameter

    @torch.no_grad()
    def take_in(self) -> None:
        for optimizer, rows in zip(self._optimizers, self._rows, strict=True):
            state = optimizer.state[self._parameter(optimizer)]
            for name, row in rows.items():
                if (before := state.get(name)) is row:
                    continue
                row.zero_()  # as torch begins it
                if before is not None:
                    row.copy_(before)
                state[name] = row
        self._take_settings()

    def _take_settings(self) -> None:
        options = [optimizer.param_groups[self._number] for optimizer in self._optimizers]
        settings = [(float(o["lr"]), o["eps"], o["weight_decay"], *o["betas"]) for o in options]
        if settings == self._settings:
            return
        self._settings = settings
        rates, eps, decays, *betas = zip(*settings, strict=True)
        self._lr, self._eps, self._decay = map(self._column, (rates, eps, decays))
        self._betas = [self._column(beta) for beta in betas]
        self._decays = any(decays)

    def _column(self, values: Sequence[float]) -> Any:
        """Return one number where members agree, else `[K, 1]`."""
        if all(value == values[0] for value in values):
            return values[0]
        return self.vector.new_tensor(values, requires_grad=False).unsqueeze(1)

    def step(self, is_decoupled: bool) -> None:
        """Kingma and Ba (2015), algorithm 1; AdamW's decay as in Loshchilov and Hutter (2019)."""
        self._steps += 1
        beta1, beta2 = self._betas
        device, dtype = self.vector.device, self.vector.dtype
        # In float64, as a power of many steps needs.
        steps = self._steps.double().cpu().unsqueeze(1)
        corrections = [1 - b**steps for b in map(_double, (beta1, beta2))]
        size = (_double(self._lr) / corrections[0]).to(device, dtype)
        root = corrections[1].sqrt().to(device, dtype)
        gradient = self.vector.grad
        assert gradient is not None
        if self._decays and is_decoupled:
            self.vector.mul_(1 - self._lr * self._decay)
        elif self._decays:
            gradient = gradient + self._decay * self.vector
        self._first.lerp_(gradient, 1 - beta1)
        squares = gradient.square().mul_(1 - beta2)
        self._second.mul_(beta2).add_(squares)
        torch.sqrt(self._second, out=self._denominator)
        self._denominator.div_(root).add_(self._eps)
        self.vector.addcmul_(self._first / self._denominator, -size)


def _double(value: Any) -> Any:
    return value.double().cpu() if isinstance(value, Tensor) else value
