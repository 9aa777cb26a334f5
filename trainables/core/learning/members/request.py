"""`LearnerRequest`: what a learner is to do, alone or with others, a gradient step or an update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trainables.core.data.batch import Batch
from trainables.core.learning.members.lifted_loss import loss_key, why_loss_not_lifted

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner, Losses

# Rows times parameters above which a step on a CPU is bound by its products: measured, five members
# of SAC with 256 rows and 256x256 units (55 million) take as long together as one after the other,
# with 64 rows and networks of 140,000 parameters (9 million) two thirds.
_MOST_PRODUCTS = 16_000_000


@dataclass(frozen=True)
class LearnerRequest:
    """What a learner learns from some rows.

    Attributes:
        learner: Whose they are.
        batch: Columns `[B, …]`.
        loss_fn: The loss.
    """

    learner: Any  # a `HostedLearner`, whose module imports this one
    batch: Batch
    loss_fn: Losses

    @property
    def owner(self) -> Any:
        """Whose it is."""
        return self.learner

    @property
    def num_rows(self) -> int:
        """Rows of the batch, B."""
        return len(next(iter(self.batch.values())))

    @property
    def rows_at_once(self) -> int:
        """Rows of a gradient step."""
        return self.num_rows

    def alone(self) -> dict[str, Any]:
        """Do it by itself."""
        raise NotImplementedError

    def why_alone(self) -> str | None:
        """Return why it is not done with others; None if it is, with those of its `key`."""
        return (
            self.learner.why_alone()
            or why_loss_not_lifted(self.loss_fn, self.learner)
            or why_not_faster(self.learner, self.rows_at_once)
        )

    def key(self) -> tuple[Any, ...]:
        """Return what is equal for requests that can be met together."""
        columns = [(n, c.dtype, c.device, c.shape[1:]) for n, c in self.batch.items()]
        return (
            type(self),
            self.learner.member_key,
            tuple(columns),
            loss_key(self.loss_fn, self.learner),
        )


@dataclass(frozen=True)
class UpdateRequest(LearnerRequest):
    """Several epochs of minibatch steps; see `Learner.update` for what is not said here.

    Attributes:
        num_epochs: Passes over the rows.
        minibatch_size: Rows of a step at most; None takes all.
        generator: Of the permutations; None keeps the order.
        normalize: Columns that are normalised in each minibatch.
    """

    num_epochs: int
    minibatch_size: int | None
    generator: torch.Generator | None
    normalize: Mapping[str, float]

    @property
    def rows_at_once(self) -> int:
        rows = self.num_rows
        return rows if self.minibatch_size is None else min(rows, self.minibatch_size)

    @property
    def num_minibatches(self) -> int:
        """Steps of an epoch."""
        return 1 if self.minibatch_size is None else -(-self.num_rows // self.minibatch_size)

    def arguments(self) -> dict[str, Any]:
        """Return it as arguments of `Learner.update`."""
        names = ("batch", "loss_fn", "num_epochs", "minibatch_size", "generator", "normalize")
        return {name: getattr(self, name) for name in names}

    def alone(self) -> dict[str, float]:
        return self.learner.update_alone(self)

    def key(self) -> tuple[Any, ...]:
        steps = (self.num_epochs, self.num_minibatches, self.generator is None, *self.normalize)
        return *super().key(), steps


@dataclass(frozen=True)
class StepRequest(LearnerRequest):
    """One gradient step; see `Learner.update_step`."""

    def alone(self) -> dict[str, Any]:
        return self.learner.step_alone(self)


def why_not_faster(learner: Learner, num_rows: int) -> str | None:
    """Return why several at once would take as long as one by one; None: they are faster.

    Args:
        learner: One of them.
        num_rows: Rows of a gradient step.
    """
    size = len(learner.gradient)
    if learner.gradient.device.type != "cpu" or num_rows * size <= _MOST_PRODUCTS:
        return None
    return f"its products, {num_rows} rows by {size:,} parameters, are as fast one by one"
