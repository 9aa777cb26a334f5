"""Means over rows, of one learner or of several at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

ROW_SHARES = "row_shares"
"""The column of what each row counts in a mean, `[K, B]`: members may have fewer rows than B."""


def row_mean(rows: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the mean over rows, the last axis: `[…]` of `[…, B]`, and of members `[K, …]`.

    Args:
        rows: What is averaged.
        batch: The minibatch that it is of.
    """
    shares = batch.get(ROW_SHARES)
    if shares is None:
        return rows.mean(-1)
    while shares.dim() < rows.dim():
        shares = shares.unsqueeze(1)
    return (rows * shares).sum(-1)
