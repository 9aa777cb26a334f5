"""Batches of a group's agents, as gymnasium batches spaces: arrays, or trees of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def write_rows(group_actions: Any, rows: np.ndarray, actions: Any) -> None:
    """Write actions to where their agents stand in a batch of the group.

    Args:
        group_actions: A batch of the group, `[R, …]`: an array, or a tree of arrays.
        rows: The rows of the agents, `[M]`.
        actions: `[M, …]`.
    """
    if isinstance(group_actions, dict):
        for key, part in group_actions.items():
            write_rows(part, rows, actions[key])
    elif isinstance(group_actions, tuple):
        for part, of_rows in zip(group_actions, actions, strict=True):
            write_rows(part, rows, of_rows)
    else:
        group_actions[rows] = np.asarray(actions)


def leaves(batch: Any) -> list[np.ndarray]:
    """Return the arrays of a batch, always in the same order."""
    if isinstance(batch, dict):
        return [leaf for part in batch.values() for leaf in leaves(part)]
    if isinstance(batch, tuple):
        return [leaf for part in batch for leaf in leaves(part)]
    return [batch]
