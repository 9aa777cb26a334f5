"""`Members`: learners that differ in weights and settings alone, and update together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, tree_of
from trainables.core.data.features import Features
from trainables.core.learning.members.lifted_module import (
    LiftedModule,
    check_alike,
    features_of,
)
from trainables.core.learning.members.request import UpdateRequest, lifted_loss
from trainables.core.learning.members.rows import ROW_SHARES
from trainables.core.learning.members.stacked_stepping import StackedStepping
from trainables.core.learning.minibatches import bounds_of

if TYPE_CHECKING:
    from trainables.core.learning.learner import Learner

Metrics = dict[str, Tensor]


class Members:
    """K learners as one tensor program.

    Each keeps its own parameters and moments: they are read before an update and written back
    after it, so that a member is at any time between updates what it would be alone.

    Args:
        learners: With equal `member_key`s.

    Raises:
        NotTogetherError: if their networks cannot be computed together.
    """

    def __init__(self, learners: Sequence[Learner]):
        self.learners = list(learners)
        first = self.learners[0]
        self._vectors = {
            name: torch.stack([one.groups[name].vector.detach() for one in self.learners])
            for name in first.groups
        }
        for vector in self._vectors.values():
            vector.requires_grad_()
        parameters = {name: flat.parameters for name, flat in first.groups.items()}
        self._module = LiftedModule(first.module, parameters, self._vectors)
        self._steppings = {
            name: StackedStepping([one.steppings[name] for one in self.learners], self._vectors)
            for name in first.steppings
        }
        self._is_checked = False

    def run(self, requests: Sequence[UpdateRequest]) -> list[dict[str, float]]:
        """Make an update of each member.

        Args:
            requests: Of the learners, in their order, with equal keys.

        Returns:
            What each reports, as `Learner.update` does.

        Raises:
            NotTogetherError: of the first update, if the members' networks are not computed apart.
        """
        self._load()
        first = next(iter(self._vectors.values()))
        loss_fn = lifted_loss(list(requests), first.dtype, first.device)
        steps: list[Metrics] = []
        for batch in _minibatches(requests, first.dtype):
            moved = {name: column.to(first.device) for name, column in batch.items()}
            if not self._is_checked:
                self._check(tree_of(moved, "features"))
                self._is_checked = True
            steps.append(self._step(moved, loss_fn))
        self._store()
        names = list(steps[0])
        found = torch.stack([torch.stack([step[name] for name in names]) for step in steps])
        means = found.mean(0).T.tolist()  # [K][names]
        return [dict(zip(names, own, strict=True)) for own in means]

    def _check(self, features: Features) -> None:
        check_alike(
            partial(self._module.bound(), features),
            [
                partial(learner.module, features_of(features, number))
                for number, learner in enumerate(self.learners)
            ],
        )

    def _step(self, batch: Batch, loss_fn: object) -> Metrics:
        for vector in self._vectors.values():
            vector.grad = None
        losses, metrics = loss_fn(self._module.bound(), batch)  # type: ignore[operator]
        # Each loss depends on its own member's parameters alone, and so does the sum's gradient.
        losses.sum().backward()
        for stepping in self._steppings.values():
            norms = stepping.step()
            for name, norm in norms.items():
                prefix = "" if len(self._vectors) == 1 else f"{name}_"
                metrics[f"{prefix}grad_norm"] = norm
        return dict(metrics)

    @torch.no_grad()
    def _load(self) -> None:
        for name, stacked in self._vectors.items():
            for row, learner in zip(stacked, self.learners, strict=True):
                row.copy_(learner.groups[name].vector)
        for stepping in self._steppings.values():
            stepping.load()

    @torch.no_grad()
    def _store(self) -> None:
        for name, stacked in self._vectors.items():
            for row, learner in zip(stacked, self.learners, strict=True):
                learner.groups[name].vector.copy_(row)
        for stepping in self._steppings.values():
            stepping.store()


def _minibatches(requests: Sequence[UpdateRequest], dtype: torch.dtype) -> Iterator[Batch]:
    """Yield minibatches `[K, B, …]`: each member's are those of its own `minibatches`.

    B is the greatest number of rows of a member; where one has fewer its first is there again, and
    counts nothing.
    """
    first = requests[0]
    columns = _stacked([request.batch for request in requests])
    longest = len(next(iter(columns.values()))) // len(requests)
    bounds = [bounds_of(request.num_rows, request.minibatch_size) for request in requests]
    sizes = torch.tensor([[end - start for start, end in pairwise(own)] for own in bounds]).T
    starts = torch.tensor([own[:-1] for own in bounds]).T.unsqueeze(-1)  # [M, K, 1]
    place = torch.arange(int(sizes.max()))
    is_row = place < sizes.unsqueeze(-1)  # [M, K, B]
    places = torch.where(is_row, starts + place, starts)
    shares = None
    if not bool(is_row.all()):
        shares = is_row.to(dtype) / sizes.unsqueeze(-1)
    is_shuffled = first.generator is not None and first.num_minibatches > 1
    for _ in range(first.num_epochs):
        rows = places
        if is_shuffled:
            rows = torch.stack([_order(r)[places[:, k]] for k, r in enumerate(requests)], 1)
        rows = rows + torch.arange(len(requests)).view(1, -1, 1) * longest
        shuffled = {
            name: column.index_select(0, rows.flatten().to(column.device)).unflatten(0, rows.shape)
            for name, column in columns.items()
        }
        for name in first.normalize:
            least = [request.normalize[name] for request in requests]
            shuffled[name] = _normalized(shuffled[name], is_row, sizes, least)
        for number in range(len(sizes)):
            batch = {name: column[number] for name, column in shuffled.items()}
            if shares is not None:
                batch[ROW_SHARES] = shares[number].to(next(iter(batch.values())).device)
            yield batch


def _order(request: UpdateRequest) -> Tensor:
    return torch.randperm(request.num_rows, generator=request.generator)


def _stacked(batches: Sequence[Batch]) -> Batch:
    """Return columns of all members, one below the other, `[K R, …]`, each filled up to R rows."""
    longest = max(len(next(iter(batch.values()))) for batch in batches)
    found = {}
    for name, column in batches[0].items():
        shape = (len(batches), longest, *column.shape[1:])
        stacked = column.new_zeros(shape)
        for row, batch in zip(stacked, batches, strict=True):
            row[: len(batch[name])] = batch[name]
        found[name] = stacked.flatten(0, 1)
    return found


def _normalized(values: Tensor, is_row: Tensor, sizes: Tensor, least_std: list[float]) -> Tensor:
    """Do as `minibatches.normalized` does, of every minibatch of every member, `[M, K, B]`."""
    is_row, count = is_row.to(values.device), sizes.unsqueeze(-1).to(values)
    least = values.new_tensor(least_std).view(1, -1, 1)
    mean = (values * is_row).sum(-1, keepdim=True) / count
    centred = values - mean
    variance = (centred.square() * is_row).sum(-1, keepdim=True) / (count - 1).clamp_min(1)
    scaled = centred / (variance.sqrt().clamp_min(least) + 1e-8)
    return torch.where(count < 2, values, scaled)
