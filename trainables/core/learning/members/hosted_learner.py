"""`HostedLearner`: a learner that updates together with those of other trials in its process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.learning.learner import Learner, Losses, Metrics, Reduction
from trainables.core.learning.members.company import company
from trainables.core.learning.members.lifted_module import structure, why_not_lifted
from trainables.core.learning.members.request import StepRequest, UpdateRequest
from trainables.core.learning.members.stacked_stepping import why_not_stacked

_ON_DISK = "its policy is on disk while others learn"


class HostedLearner(Learner):
    """Asks the company that it is in for its updates and steps; without any it makes them itself.

    Attributes:
        own_class: The learner's class outside a host.
    """

    own_class: ClassVar[type[Learner]] = Learner

    def update_step(
        self,
        batch: Batch,
        loss_fn: Losses,
        share: Tensor | float | None = None,
        *,
        reduction: Reduction = "mean",
    ) -> Metrics:
        if share is None and (others := company()) is not None:
            return others.ask(StepRequest(self, batch, loss_fn))
        return super().update_step(batch, loss_fn, share, reduction=reduction)

    def update(
        self,
        batch: Batch,
        loss_fn: Losses,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        generator: torch.Generator | None = None,
        normalize: Mapping[str, float] | None = None,
        ids: Tensor | None = None,
        reduction: Reduction = "mean",
    ) -> dict[str, float]:
        request = UpdateRequest(
            self, batch, loss_fn, num_epochs, minibatch_size, generator, normalize or {}
        )
        if ids is None and (others := company()) is not None:
            return others.ask(request)
        return super().update(**request.arguments(), ids=ids, reduction=reduction)

    def step_alone(self, request: StepRequest) -> Metrics:
        """Make a step that no other member takes part in."""
        return super().update_step(request.batch, request.loss_fn)

    def update_alone(self, request: UpdateRequest) -> dict[str, float]:
        """Make an update that no other member takes part in."""
        return super().update(**request.arguments())

    def why_alone(self) -> str | None:
        """Return why this learner cannot learn with others; None if it can."""
        if self.own_class is Learner and self.shelved is not None:  # since it was asked first
            return _ON_DISK
        return self._why_alone

    @cached_property
    def _why_alone(self) -> str | None:
        return why_alone(self)

    @cached_property
    def member_key(self) -> tuple[Any, ...]:
        """What is equal for learners that can learn together."""
        optimizers = tuple(
            (name, type(one.optimizer), one.grad_clip_by, tuple(one.groups))
            for name, one in self.steppings.items()
        )
        targets = tuple((name, structure(one.network)) for name, one in self.targets.items())
        return structure(self.module), optimizers, targets

    def shelve(self, shelved: Any) -> None:
        if any(flat.is_shared for flat in self.groups.values()):
            # Else what comes and goes would be others' memory, too.
            shelved.use()
            self._keep_apart()
        super().shelve(shelved)

    @torch.no_grad()
    def _keep_apart(self) -> None:
        """Have memory of its own again."""
        networks = [self.module, *(target.network for target in self.targets.values())]
        for flat in (*self.groups.values(), *(target.flat for target in self.targets.values())):
            flat.move(torch.empty_like(flat.vector))
        for buffer in (buffer for network in networks for buffer in network.buffers()):
            buffer.data = buffer.clone()
        for optimizer in self.optimizers.values():
            for of_parameter in optimizer.state.values():
                tensors = {n: part for n, part in of_parameter.items() if isinstance(part, Tensor)}
                of_parameter.update({name: part.clone() for name, part in tensors.items()})


@cache
def hosted_learner(kind: Any) -> type[HostedLearner]:
    """Return the class of a host's learners that are of a class elsewhere."""
    if issubclass(kind, HostedLearner):
        return kind
    if kind is Learner:
        return HostedLearner
    named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (HostedLearner, kind), {**named, "own_class": kind})


def why_alone(learner: Learner) -> str | None:
    """Return why a learner cannot learn with others; None if it can, should it be hosted."""
    own_class = getattr(learner, "own_class", type(learner))
    if own_class is not Learner:
        return f"its learner_class is {own_class.__name__}"
    if learner.shelved is not None:
        return _ON_DISK
    if learner.microbatch_size is not None:
        return "it has a microbatch_size"
    if learner.is_compiled:
        return "its losses are compiled"
    if learner.networks:
        return f"it has networks beside its module, {', '.join(learner.networks)}"
    reasons = (why_not_stacked(one) for one in learner.steppings.values())
    return why_not_lifted(learner.module) or next((r for r in reasons if r), None)
