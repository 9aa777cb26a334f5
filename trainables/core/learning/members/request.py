"""`UpdateRequest`: an update that a learner is to make, alone or with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainables.core.data.batch import Batch

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner, Losses


@dataclass(frozen=True)
class UpdateRequest:
    """Several epochs of minibatch steps; see `Learner.update` for what is not said here.

    Attributes:
        learner: Whose they are.
        batch: Columns `[B, …]`.
        loss_fn: The loss.
        num_epochs: Passes over the rows.
        minibatch_size: Rows of a step at most; None takes all.
        generator: Of the permutations; None keeps the order.
        normalize: Columns that are normalised in each minibatch.
    """

    learner: Learner
    batch: Batch
    loss_fn: Losses
    num_epochs: int
    minibatch_size: int | None
    generator: torch.Generator | None
    normalize: Mapping[str, float]

    @property
    def owner(self) -> Learner:
        """Whose the update is."""
        return self.learner

    @property
    def num_rows(self) -> int:
        """Rows of the batch, B."""
        return len(next(iter(self.batch.values())))

    @property
    def num_minibatches(self) -> int:
        """Steps of an epoch."""
        return 1 if self.minibatch_size is None else -(-self.num_rows // self.minibatch_size)

    def alone(self) -> dict[str, float]:
        """Make the update by itself."""
        return self.learner.update_alone(self)

    def why_alone(self) -> str | None:
        """Return why it cannot be made with others; None if it can, with those of its `key`."""
        if (reason := self.learner.why_alone()) is not None:
            return reason
        if not _lifts(self.loss_fn):
            return "its loss is not written for several members"
        return None

    def key(self) -> tuple[Any, ...]:
        """Return what is equal for updates that can be made together."""
        loss: Any = self.loss_fn
        columns = [(n, c.dtype, c.device, tuple(c.shape[1:])) for n, c in self.batch.items()]
        return (
            self.learner.member_key(),
            tuple(columns),
            (self.num_epochs, self.num_minibatches, self.generator is None, *self.normalize),
            loss.func,
            tuple((name, _kind(value)) for name, value in loss.keywords.items()),
        )


def lifts(function: Any) -> Any:
    """Mark a loss that is one for several members, too, where rows and outputs are `[K, B, …]`.

    It takes means over rows by `row_mean`, and coefficients that may be `[K]`, which meet rows by
    `of_rows`; it returns the loss of each, `[K]`. Its other arguments are alike for all members.
    """
    function.lifts = True
    return function


def lifted_loss(requests: list[UpdateRequest], dtype: torch.dtype, device: torch.device) -> Any:
    """Return the loss of all members, of updates with the same key."""
    losses: list[Any] = [request.loss_fn for request in requests]
    keywords = {
        name: _together([loss.keywords[name] for loss in losses], dtype, device)
        for name in losses[0].keywords
    }
    return partial(losses[0].func, **keywords)


def _lifts(loss: Any) -> bool:
    return isinstance(loss, partial) and not loss.args and getattr(loss.func, "lifts", False)


def _kind(value: Any) -> Any:
    """Return what of a loss's argument must be alike: of coefficients, which of them are there."""
    if isinstance(value, tuple):
        return type(value), tuple(_kind(part) for part in value)
    if isinstance(value, (int, float)):
        return "off" if value == 0 else "number"
    return type(value)


def _together(values: list[Any], dtype: torch.dtype, device: torch.device) -> Any:
    """Return one argument of all members: numbers that differ as `[K]`."""
    first = values[0]
    if isinstance(first, tuple):
        parts = (_together(list(part), dtype, device) for part in zip(*values, strict=True))
        return type(first)(*parts)
    if isinstance(first, Tensor):
        return torch.stack(values)
    if isinstance(first, (int, float)) and any(value != first for value in values):
        return torch.tensor(values, dtype=dtype, device=device)
    return first
