"""What a batch is made of, rows or sequences, and its minibatches, permuted parts of it.

A batch may be spread over several learners. Sequences are for modules with a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.features import Features, map_tensors
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.modules import ModuleOutput, PolicyValueModule

Generator = torch.Generator | None
# Columns of sequences that are no rows to train on.
_OWN = ("features", "state", "is_first", "valid")


def minibatches(
    batch: Batch,
    num_epochs: int,
    minibatch_size: int | None,
    generator: Generator,
    normalize: Mapping[str, float] | None = None,
) -> Iterator[Batch]:
    """Yield minibatches of all rows, `num_epochs` times, by one permutation an epoch.

    Rows are divided evenly: a batch of 2,040 in minibatches of 256 gives 8 of 255, never a
    last one of a few noisy rows.

    Args:
        batch: Columns `[B, ...]`.
        num_epochs: Passes over the rows.
        minibatch_size: Rows of a minibatch at most; None takes all.
        generator: CPU generator of the permutations; None keeps the order.
        normalize: Columns that get mean 0 and standard deviation 1 in each minibatch, with the
            least deviation that each is divided by.
    """
    bounds = bounds_of(len(next(iter(batch.values()))), minibatch_size)
    for _ in range(num_epochs):
        shuffled = batch
        if generator is not None and len(bounds) > 2:
            # One gather a column and epoch; the minibatches are then views of it.
            order = torch.randperm(bounds[-1], generator=generator)
            shuffled = {k: v.index_select(0, order.to(v.device)) for k, v in batch.items()}
        for start, end in pairwise(bounds):
            minibatch = {name: column[start:end] for name, column in shuffled.items()}
            for name, least_std in (normalize or {}).items():
                minibatch[name] = normalized(minibatch[name], minibatch[name], least_std)
            yield minibatch


def shared_minibatches(
    batch: Batch,
    ids: Tensor,
    ranks: Ranks,
    num_epochs: int,
    minibatch_size: int | None,
    generator: Generator,
    normalize: Mapping[str, float] | None = None,
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield the rows that this rank has of each minibatch that `minibatches` makes of all rows.

    Every rank draws the same permutation of all rows. Where a minibatch has no row of this rank,
    it gets one with a share of 0, so that each rank takes part in every step.

    Args:
        batch: Columns `[B, ...]`.
        ids: The number of each row among those of all ranks, `[B]`, see `row_ids`.
        ranks: Who shares them.
        num_epochs: Passes over the rows.
        minibatch_size: Rows of all ranks in a minibatch at most; None takes all.
        generator: CPU generator of the permutations, in the same state on each rank.
        normalize: Columns that get mean 0 and standard deviation 1 over all ranks, with the least
            deviation that each is divided by.

    Yields:
        A minibatch, and its share of the rows of all ranks that are trained on, a float64 scalar:
        what this rank's mean counts in the mean over all.
    """
    total = int(ranks.sum(torch.tensor(len(ids))))
    bounds = bounds_of(total, minibatch_size)
    place = torch.full((total,), -1)  # of each row of all ranks in this batch
    place[ids] = torch.arange(len(ids))
    weights = trained_rows(batch)
    if not len(ids):
        batch = _placeholder(batch)
    order = torch.arange(total)
    for _ in range(num_epochs):
        if generator is not None and len(bounds) > 2:
            order = torch.randperm(total, generator=generator)
        here = [p[p >= 0] for p in (place[order[a:b]] for a, b in pairwise(bounds))]
        counts = torch.stack([weights[rows].sum() for rows in here]).double()
        shares = counts / ranks.sum(counts.clone()).clamp_min(1)
        moments = {
            name: _moments(batch[name].cpu(), here, ranks, least_std)
            for name, least_std in (normalize or {}).items()
        }
        for i, rows in enumerate(here):
            rows = rows if len(rows) else torch.zeros(1, dtype=torch.long)
            minibatch = {k: v.index_select(0, rows.to(v.device)) for k, v in batch.items()}
            for name, of_column in moments.items():
                mean, std = of_column[i].to(minibatch[name]).unbind()
                minibatch[name] = (minibatch[name] - mean) / std
            yield minibatch, shares[i]


def trained_rows(batch: Batch) -> Tensor:
    """Return how many rows of each item are trained on, `[B]`: of sequences the valid ones."""
    if "valid" in batch:
        return batch["valid"].sum(1).cpu()
    return torch.ones(len(next(iter(batch.values()))))


def row_ids(kept: Tensor, ranks: Ranks) -> Tensor:
    """Return the number of each row among those of all ranks, in the order of one learner.

    Args:
        kept: Which rows there are, `[T, N]` with N slots of this rank, bool.
        ranks: Who has the other slots; T is the same for all.

    Returns:
        `[B]` for the rows that are kept, time by time.
    """
    parts = ranks.gather(kept.T.to(torch.uint8))  # [N, T] each
    everyone = torch.cat(parts).T.bool()
    numbers = everyone.flatten().cumsum(0).view_as(everyone) - 1
    first = sum(len(part) for part in parts[: ranks.rank])
    return numbers[:, first : first + kept.shape[1]][kept].cpu()


def consecutive_ids(num_rows: int, ranks: Ranks) -> Tensor | None:
    """Return `row_ids` where the rows of a rank follow those of ranks before it; None if alone."""
    if ranks.size == 1:
        return None
    counts = [len(part) for part in ranks.gather(torch.zeros(num_rows))]
    return torch.arange(num_rows) + sum(counts[: ranks.rank])


def normalized(values: Tensor, rows: Tensor, least_std: float = 0.0) -> Tensor:
    """Return values in the scale in which rows `[M]` have mean 0 and standard deviation 1.

    Rows that deviate by less than `least_std` are taken to deviate by that much: they keep a
    deviation below 1, and what is noise in them is not blown up.
    """
    if len(rows) < 2:
        return values
    std, mean = torch.std_mean(rows)
    return (values - mean) / (std.clamp_min(least_std) + 1e-8)


def _placeholder(batch: Batch) -> Batch:
    """Return a row for a rank that has none: it counts nothing in a loss, but is finite."""
    return {
        name: column.new_ones((1, *column.shape[1:]))
        if name.startswith("features") or name == "valid"
        else column.new_zeros((1, *column.shape[1:]))
        for name, column in batch.items()
    }


def bounds_of(rows: int, minibatch_size: int | None) -> list[int]:
    """Return where each minibatch of so many rows begins, and where the last one ends."""
    count = 1 if minibatch_size is None else -(-rows // minibatch_size)
    return [rows * i // count for i in range(count + 1)]


def _moments(column: Tensor, parts: list[Tensor], ranks: Ranks, least_std: float) -> Tensor:
    """Return mean and divisor, as `normalized` has them, of each part of a column, `[parts, 2]`."""
    values = [column[rows].double() for rows in parts]
    sums = torch.stack([torch.stack([torch.ones_like(v).sum(), v.sum()]) for v in values])
    count, total = ranks.sum(sums).unbind(1)
    mean = total / count
    # In two passes: the difference of large squares would cost digits.
    squares = torch.stack([(v - m).square().sum() for v, m in zip(values, mean, strict=True)])
    std = (ranks.sum(squares) / (count - 1).clamp_min(1)).sqrt().clamp_min(least_std) + 1e-8
    alone = count < 2
    return torch.stack([mean.masked_fill(alone, 0.0), std.masked_fill(alone, 1.0)], dim=1)


def chunked(column: Tensor, length: int) -> Tensor:
    """Return a column `[T, N, ...]` as sequences `[S * N, length, ...]`, S = ceil(T / length).

    The last rows are padded with zeros; of the column `valid` these are False.
    """
    missing = -len(column) % length
    if missing:
        column = torch.cat([column, column.new_zeros((missing, *column.shape[1:]))])
    chunks = column.unflatten(0, (-1, length))  # [S, length, N, ...]
    return chunks.transpose(1, 2).reshape(-1, length, *column.shape[2:])


def sequence_batch(
    columns: Batch, features: Features, states: dict[str, Tensor], length: int
) -> Batch:
    """Return a batch of sequences that `unrolled` takes.

    Args:
        columns: `[T, N, ...]`, among them `valid` and `is_first`.
        features: `[T, N, ...]`.
        states: Before the rows 0, length, 2 length, …, `[S, N, ...]` by name.
        length: Rows of a sequence, `max_seq_len`.

    Returns:
        Columns `[M, length, ...]`, and the states `[M, ...]`: of the S * N sequences those M that
        have a valid row, so that every minibatch has one.
    """
    batch = {name: chunked(column, length) for name, column in columns.items()}
    batch |= tree_columns("features", map_tensors(lambda part: chunked(part, length), features))
    batch |= tree_columns("state", {name: part.flatten(0, 1) for name, part in states.items()})
    kept = batch["valid"].any(1).nonzero().squeeze(1)
    return {name: column.index_select(0, kept) for name, column in batch.items()}


def sequences_kept(valid: Tensor, length: int) -> Tensor:
    """Return which sequences `sequence_batch` keeps of rows `[T, N]`, `[S, N]`, bool."""
    num_slots = valid.shape[1]  # 0 of a learner whose share has no slot of a module
    return chunked(valid, length).any(1).view(-(-len(valid) // length), num_slots)


def unrolled(module: PolicyValueModule, batch: Batch) -> tuple[ModuleOutput, Batch]:
    """Return what a module says of a batch, and the rows of it that are trained on.

    Args:
        module: With a memory or without.
        batch: Rows `[B, ...]`, or sequences of `sequence_batch`. Of these each runs on from its
            stored state, and rows that are not valid (padding; final observations) are left out of
            what is returned: no loss can see them.

    Returns:
        Outputs `[M, ...]` and columns `[M, ...]` besides the features.
    """
    if not module.is_recurrent:
        return module(tree_of(batch, "features")), batch
    features = map_tensors(lambda part: part.transpose(0, 1), tree_of(batch, "features"))
    state = tree_of(batch, "state")
    assert isinstance(state, dict)
    is_first = batch["is_first"].transpose(0, 1)
    # The row before an episode's first one is a final observation, and so not valid.
    output, _ = module.unroll(features, state, is_first, ends_unseen=True)
    rows = batch["valid"].flatten().nonzero().squeeze(1)
    return ModuleOutput(
        *(part.transpose(0, 1).flatten(0, 1).index_select(0, rows) for part in output)
    ), _taken(batch, rows)


def num_items(num_rows: int | None, length: int) -> int | None:
    """Return how many items of a batch make so many rows: rows, or at least one sequence.

    Args:
        num_rows: None stands for all, and gives None.
        length: Rows of a sequence, 0 without a memory.
    """
    if num_rows is None or not length:
        return num_rows
    return max(1, num_rows // length)


def valid_rows(batch: Batch) -> Batch:
    """Return the rows `[M, ...]` of a batch that are trained on, besides features and states."""
    if "is_first" not in batch:
        return batch
    return _taken(batch, batch["valid"].flatten().nonzero().squeeze(1))


def _taken(batch: Batch, rows: Tensor) -> Batch:
    return {
        name: column.flatten(0, 1).index_select(0, rows)
        for name, column in batch.items()
        if name.partition("/")[0] not in _OWN
    }
