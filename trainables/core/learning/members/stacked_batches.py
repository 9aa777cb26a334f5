"""Batches of several members side by side, `[K, B, …]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.learning.members.lifted_loss import ROW_SHARES
from trainables.core.learning.members.request import UpdateRequest
from trainables.core.learning.minibatches import bounds_of


def side_by_side(batches: Sequence[Batch], dtype: torch.dtype) -> Batch:
    """Return the batches of all members as one, `[K, B, …]`.

    B is the greatest number of rows of a member; where one has fewer its first is there again, and
    counts nothing.

    Args:
        batches: With equal columns.
        dtype: Of what rows count.
    """
    sizes = [len(next(iter(batch.values()))) for batch in batches]
    if min(sizes) == max(sizes):
        return {name: torch.stack([batch[name] for batch in batches]) for name in batches[0]}
    place, count = torch.arange(max(sizes)), torch.tensor(sizes).unsqueeze(1)
    is_row = place < count
    rows = torch.where(is_row, place, 0)
    found = {
        name: torch.stack(
            [b[name][own.to(b[name].device)] for b, own in zip(batches, rows, strict=True)]
        )
        for name in batches[0]
    }
    return found | {ROW_SHARES: is_row.to(dtype) / count}


def shared_minibatches(requests: Sequence[UpdateRequest], dtype: torch.dtype) -> Iterator[Batch]:
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
