"""Rollouts as sequences, for modules with a memory."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.core.data.batch import Batch, tree_columns, tree_of
from trainables.core.data.features import Features, map_tensors
from trainables.core.networks.modules import ModuleOutput, PolicyModule

_OWN = ("features", "state", "is_first", "valid")


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
    return chunked(valid, length).any(1).view(-1, valid.shape[1])


def unrolled(module: PolicyModule, batch: Batch) -> tuple[ModuleOutput, Batch]:
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
    """Items of a batch that make so many rows: rows, or at least one sequence.

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
