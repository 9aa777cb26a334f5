"""Rollouts of any number of columns, as a replay buffer of so many slots takes them.

Where agents share a module it has a column for each, so the number changes as they come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trainables.core.data.batch import Rollout


def fitted(rollout: Rollout, num_slots: int, num_before: int) -> Iterator[Rollout]:
    """Yield what to write of a rollout, one after the other, each of `num_slots` columns.

    Columns that are missing are put behind the others, without a valid row. Of too many, blocks of
    `num_slots` columns are written one behind the other. A column only goes on where the last
    rollout ended if that had as many: else it may be another agent's, or what lies there is the
    last successor of a column that is missing now, which must stay.

    Args:
        rollout: `[T, M]`.
        num_slots: Columns N of the buffer.
        num_before: Columns of the rollout that was written before, as this is given; 0: none.
    """
    num_columns = rollout.rewards.shape[1]
    goes_on = num_columns == num_before <= num_slots
    if not goes_on and rollout.follows.any():
        rollout = replace(rollout, follows=np.zeros_like(rollout.follows))
    for first in range(0, num_columns, num_slots):
        last = min(first + num_slots, num_columns)
        block = rollout if num_columns <= num_slots else rollout.slots(first, last)
        yield _padded(block, num_slots, goes_on)


def _padded(rollout: Rollout, num_slots: int, goes_on: bool) -> Rollout:
    """Return a rollout with as many columns as slots; those behind follow if they were empty."""
    missing = num_slots - rollout.rewards.shape[1]
    if not missing:
        return rollout
    column = rollout.slots(0, 1).without_steps()  # real observations, which networks can take
    nothing = np.zeros(1, np.int64)
    column = replace(column, follows=np.full_like(column.follows, goes_on), lengths=nothing)
    return Rollout.concatenate([rollout, *[column] * missing])
