"""Means over rows, of one learner or of several at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

ROW_SHARES = "row_shares"
"""The column of what each row counts in a mean, `[K, B]`: members may have fewer rows than B."""


def row_mean(rows: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the mean over rows: `[]` of `[B]`, and each member's own, `[K]`, of `[K, B]`.

    Args:
        rows: What is averaged.
        batch: The minibatch that it is of.
    """
    shares = batch.get(ROW_SHARES)
    return rows.mean(-1) if shares is None else (rows * shares).sum(-1)
