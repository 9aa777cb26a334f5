"""`Members`: learners that differ in weights and settings alone, and update together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainables.core.data.batch import Batch, tree_of
from trainables.core.learning.members.checks import check_loss
from trainables.core.learning.members.lifted_loss import lifted_loss, target_name
from trainables.core.learning.members.lifted_module import (
    LiftedModule,
    check_alike,
    features_of,
)
from trainables.core.learning.members.lifted_target import LiftedTarget
from trainables.core.learning.members.request import LearnerRequest, UpdateRequest
from trainables.core.learning.members.stacked_batches import shared_minibatches, side_by_side
from trainables.core.learning.members.stacked_rows import StackedVectors
from trainables.core.learning.members.stacked_stepping import StackedStepping

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner

Metrics = dict[str, Tensor]


class Members:
    """K learners as one tensor program.

    While they learn together their parameters, moments and targets are rows of one memory: a member
    is at any time what it would be alone, and may compute by itself in between. Who learns with
    others next time takes its own along.

    Args:
        learners: With equal `member_key`s.

    Raises:
        NotTogetherError: if their networks cannot be computed together.
    """

    def __init__(self, learners: Sequence[Learner]):
        self.learners = list(learners)
        first = self.learners[0]
        self._stacks = {
            name: StackedVectors([one.groups[name] for one in self.learners])
            for name in first.groups
        }
        self._vectors = {name: one.memory.requires_grad_() for name, one in self._stacks.items()}
        parameters = {name: flat.parameters for name, flat in first.groups.items()}
        modules = [one.module for one in self.learners]
        self._module = LiftedModule(first.module, parameters, self._vectors, modules)
        self._targets = {name: self._lifted_target(name) for name in first.targets}
        self._steppings = {
            name: StackedStepping([one.steppings[name] for one in self.learners], self._vectors)
            for name in first.steppings
        }
        self._losses: list[object] = []
        self._is_checked = False

    def _lifted_target(self, name: str) -> LiftedTarget:
        return LiftedTarget([one.targets[name] for one in self.learners])

    def run(self, requests: Sequence[LearnerRequest]) -> list[dict[str, Any]]:
        """Do what each member is to do.

        Args:
            requests: Of the learners, in their order, with equal keys.

        Returns:
            What each reports, as it does alone.

        Raises:
            NotTogetherError: of the first ones, if the members' networks are not computed apart.
        """
        self._take_in()
        if isinstance(requests[0], UpdateRequest):
            return self._update([one for one in requests if isinstance(one, UpdateRequest)])
        return self._take_step(requests)

    def _update(self, requests: Sequence[UpdateRequest]) -> list[dict[str, float]]:
        dtype = self._dtype
        loss_fn = self._loss_of(requests)
        steps: list[Metrics] = []
        for batch in shared_minibatches(requests, dtype):
            moved = self._moved(batch)
            if not self._is_checked:
                self._check_module(moved)
                self._is_checked = True
            steps.append(self._step(moved, loss_fn))
        names = list(steps[0])
        found = torch.stack([torch.stack([step[name] for name in names]) for step in steps])
        means = found.mean(0).T.tolist()  # [K][names]
        return [dict(zip(names, own, strict=True)) for own in means]

    def _take_step(self, requests: Sequence[LearnerRequest]) -> list[Metrics]:
        """Take one gradient step of each; what losses report of rows, `[K, B]`, is cut to B."""
        batch = self._moved(side_by_side([request.batch for request in requests], self._dtype))
        loss_fn = self._loss_of(requests)
        if not self._is_checked:
            self._check_module(batch)
            check_loss(loss_fn, self._module.bound(), batch, requests)
            self._is_checked = True
        metrics = self._step(batch, loss_fn)
        rows = metrics.pop("priorities", None)
        reports = [dict(zip(metrics, values, strict=True)) for values in _by_member(metrics)]
        if rows is not None:
            for report, own, request in zip(reports, rows, requests, strict=True):
                report["priorities"] = own[: request.num_rows]
        return reports

    def _check_module(self, batch: Batch) -> None:
        features = tree_of(batch, "features")
        check_alike(
            partial(self._module.bound(), features),
            [
                partial(learner.module, features_of(features, number))
                for number, learner in enumerate(self.learners)
            ],
        )

    def _step(self, batch: Batch, loss_fn: Any) -> Metrics:
        for vector in self._vectors.values():
            vector.grad = None
        losses, metrics = loss_fn(self._module.bound(), batch)
        # Each loss depends on its own member's parameters alone, and so does the sum's gradient.
        losses.sum().backward()
        for stepping in self._steppings.values():
            norms = stepping.step()
            for name, norm in norms.items():
                prefix = "" if len(self._vectors) == 1 else f"{name}_"
                metrics[f"{prefix}grad_norm"] = norm
        return dict(metrics)

    def _loss_of(self, requests: Sequence[LearnerRequest]) -> Any:
        """Return the loss of all members; off-policy each has the same one in every step."""
        losses = [request.loss_fn for request in requests]
        if any(one is not before for one, before in zip_longest(losses, self._losses)):
            self._losses = list(losses)
            self._loss = lifted_loss(losses, self._lifted_network, self._dtype, self._device)
        return self._loss

    def _lifted_network(self, network: nn.Module) -> nn.Module:
        name = target_name(network, self.learners[0])
        assert name is not None  # else it would learn alone
        return self._targets[name].network

    @property
    def _dtype(self) -> torch.dtype:
        return next(iter(self._vectors.values())).dtype

    @property
    def _device(self) -> torch.device:
        return next(iter(self._vectors.values())).device

    def _moved(self, batch: Batch) -> Batch:
        return {name: column.to(self._device) for name, column in batch.items()}

    def _take_in(self) -> None:
        """Bring in what members have elsewhere, as those that have just come."""
        for stack in self._stacks.values():
            stack.take_in()
        self._module.take_in()
        for target in self._targets.values():
            target.take_in()
        for stepping in self._steppings.values():
            stepping.take_in()


def _by_member(metrics: Metrics) -> list[Sequence[Tensor]]:
    """Return the values `[]` of each member out of those of all, `[K]`."""
    return [values.unbind() for values in torch.stack(list(metrics.values()), 1).unbind()]
