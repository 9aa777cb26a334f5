"""`FragmentQueue`: sampled fragments on their way into train batches, and those that come again."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.runtime.sampling.env_runner import Episodes
from trainables.runtime.sampling.group import Sample


class FragmentQueue:
    """Makes train batches of fragments in the order in which they arrive.

    Args:
        batch_size: Environment steps of a train batch at least.
        replay_proportion: How many stored fragments are put in for each new one, on average.
        num_slots: How many of the last fragments are stored.
        seed: Of which of them come again.
        min_fragments: Fragments of a train batch at least.
    """

    def __init__(
        self,
        batch_size: int,
        replay_proportion: float,
        num_slots: int,
        seed: np.random.SeedSequence,
        min_fragments: int = 1,
    ):
        self._batch_size, self._min_fragments = batch_size, min_fragments
        self._proportion = replay_proportion
        self._random = np.random.default_rng(seed)
        self._arrived: deque[Sample] = deque()
        self._batch: list[Sample] = []
        self._stored: deque[Sample] = deque(maxlen=num_slots)
        self._due = 0.0  # fragments to be put in again

    def __len__(self) -> int:
        """How many fragments wait."""
        return len(self._arrived) + len(self._batch)

    def add(self, sample: Sample) -> None:
        """Append a new fragment."""
        self._arrived.append(sample)

    def next_batch(self) -> list[Sample] | None:
        """Fragments of a whole train batch, or None if there are too few."""
        while self._arrived and not self._is_full:
            self._put(self._arrived.popleft())
        if not self._is_full:
            return None
        batch, self._batch = self._batch, []
        return batch

    @property
    def _is_full(self) -> bool:
        steps = sum(sample.num_env_steps for sample in self._batch)
        return steps >= self._batch_size and len(self._batch) >= self._min_fragments

    def _put(self, sample: Sample) -> None:
        self._batch.append(sample)
        if not self._stored.maxlen:
            return
        self._due += self._proportion
        while self._due >= 1 and self._stored:
            self._batch.append(self._stored[self._random.integers(len(self._stored))])
            self._due -= 1
        self._stored.append(sample)


def sample_state(sample: Sample, layouts: dict[str, ObservationLayout]) -> dict[str, Any]:
    """A copy of a sample that checkpoints keep, without the episodes, which have been counted.

    Args:
        sample: Is fetched if it is another process's.
        layouts: How observations are stored, by module id.
    """
    return {
        "index": sample.index,
        "num_env_steps": sample.num_env_steps,
        "weights_version": sample.weights_version,
        "rollouts": {
            module_id: rollout.to_state(layouts[module_id])
            for module_id, rollout in sample.fetch().items()
        },
    }


def sample_of_state(state: dict[str, Any], layouts: dict[str, ObservationLayout]) -> Sample:
    """Return the sample of `sample_state`."""
    rollouts = {
        module_id: Rollout.from_state(columns, layouts[module_id])
        for module_id, columns in state["rollouts"].items()
    }
    given = (state["index"], state["num_env_steps"], Episodes(), state["weights_version"])
    return Sample(*given, rollouts)
