"""What each of several learners gets of the data of one update."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from torch import Tensor

from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError


def shares(data: Any, count: int) -> list[Any]:
    """Data in so many parts, as equal as they can be.

    Args:
        data: A list, e.g. of references to rollouts: parts of it. Or a dict: its rollouts by
            slots, its tensors by rows, dicts of these likewise.
        count: Number of parts.
    """
    if count == 1:
        return [data]
    if isinstance(data, dict):
        split = {key: shares(part, count) for key, part in data.items()}
        return [{key: parts[i] for key, parts in split.items()} for i in range(count)]
    if isinstance(data, Rollout):
        num_slots = data.rewards.shape[1]
        return [data.slots(a, b) for a, b in pairwise(_bounds(num_slots, count))]
    if isinstance(data, list) and len(data) < count:
        raise ConfigError(
            f"num_learners = {count} cannot share out a train batch of {len(data)} fragments: "
            "raise train_batch_size_per_learner, or lower num_learners"
        )
    if isinstance(data, (list, Tensor)):
        return [data[a:b] for a, b in pairwise(_bounds(len(data), count))]
    raise TypeError(f"a {type(data).__name__} cannot be shared out over learners")


def _bounds(length: int, count: int) -> list[int]:
    return [length * i // count for i in range(count + 1)]
