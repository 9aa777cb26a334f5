"""Train batches of sampled fragments, in order (`FragmentQueue`) or again (`CircularBuffer`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.runtime.sampling.group import Sample
from trainables.runtime.sampling.sampling_worker import Episodes


class FragmentQueue:
    """Makes train batches of fragments in the order in which they arrive.

    Args:
        batch_size: Steps of a train batch at least.
        replay_proportion: How many stored fragments are put in for each new one, on average.
        num_slots: How many of the last fragments are stored.
        seed: The seed of which of them come again.
        min_fragments: Fragments of a train batch at least.
        counts_agents: Whether steps are those of all agents together; else environment steps.
    """

    def __init__(
        self,
        batch_size: int,
        replay_proportion: float,
        num_slots: int,
        seed: np.random.SeedSequence,
        min_fragments: int = 1,
        *,
        counts_agents: bool = False,
    ):
        self._batch_size, self._min_fragments = batch_size, min_fragments
        self._counts_agents = counts_agents
        self._proportion = replay_proportion
        self._random = np.random.default_rng(seed)
        self._arrived: deque[Sample] = deque()
        self._batch: list[Sample] = []
        self._stored: deque[Sample] = deque(maxlen=num_slots)
        self._due = 0.0  # fragments to be put in again

    def __len__(self) -> int:
        """Return how many fragments wait."""
        return len(self._arrived) + len(self._batch)

    def add(self, sample: Sample) -> None:
        """Append a new fragment."""
        self._arrived.append(sample)

    def next_batch(self) -> list[Sample] | None:
        """Return the fragments of a whole train batch, or None if there are too few."""
        while self._arrived and not self._is_full:
            self._put(self._arrived.popleft())
        if not self._is_full:
            return None
        batch, self._batch = self._batch, []
        return batch

    @property
    def _is_full(self) -> bool:
        steps = sum(
            sample.episodes.num_agent_steps if self._counts_agents else sample.num_env_steps
            for sample in self._batch
        )
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
    """Return the copy of a sample that checkpoints keep, without its episodes: these are counted.

    Args:
        sample: The sample, fetched if it is another process's.
        layouts: How observations are stored, by id of the modules whose rollouts are kept.
    """
    return {
        "index": sample.index,
        "num_env_steps": sample.num_env_steps,
        "weights_version": sample.weights_version,
        "rollouts": {
            module_id: rollout.to_state(layouts[module_id])
            for module_id, rollout in sample.fetch().items()
            if module_id in layouts
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


T = TypeVar("T")


@dataclass
class _Entry(Generic[T]):
    batch: T
    num_uses: int = 0


class CircularBuffer(Generic[T]):
    """The last N train batches, each of which is drawn at most K times.

    A batch leaves when it has been drawn K times, or when it is the oldest and N others have come
    after it. Its draws are spread over that time: after a batches that came later it may have been
    drawn ceil(K (a + 1) / N) times. So a learner that is fast enough draws K times for every batch
    that comes in, from all N of them, and not one batch K times before the next is there. One that
    is too slow for that draws the least used batches, the newest first, and leaves out what is old.

    Nothing waits for the buffer to be full: there is a batch to draw after every `add`.

    Args:
        num_batches: N.
        iterations_per_batch: K.

    Attributes:
        num_dropped: Draws that were lost so far, because batches came in faster than they were
            drawn.
    """

    def __init__(self, num_batches: int, iterations_per_batch: int):
        self._num_batches, self._iterations = num_batches, iterations_per_batch
        self._entries: list[_Entry[T] | None] = []  # the newest first; None: has left
        self.num_dropped = 0

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[T]:
        """Yield the batches that are in it, the newest first."""
        return (entry.batch for entry in self._entries if entry is not None)

    def add(self, batch: T) -> None:
        """Put a batch in; if N came before it, the oldest of them leaves."""
        self._entries.insert(0, _Entry(batch))
        for entry in self._entries[self._num_batches :]:
            if entry is not None:
                self.num_dropped += self._iterations - entry.num_uses
        del self._entries[self._num_batches :]

    @property
    def has_next(self) -> bool:
        """Whether there is a batch to draw now. If not, there will be after the next `add`."""
        return self._next() is not None

    def draw(self) -> T:
        """Return a batch to train on.

        Raises:
            IndexError: if there is none now.
        """
        age = self._next()
        if age is None:
            raise IndexError("no batch may be drawn before the next one is added")
        entry = self._entries[age]
        assert entry is not None
        entry.num_uses += 1
        if entry.num_uses == self._iterations:
            self._entries[age] = None
        return entry.batch

    def _next(self) -> int | None:
        """Return the age of the batch to be drawn next: the least used, of these the newest."""
        least: tuple[int, int] | None = None
        for age, entry in enumerate(self._entries):
            if entry is None or entry.num_uses >= self._allowance(age):
                continue
            if least is None or entry.num_uses < least[0]:
                least = entry.num_uses, age
        return None if least is None else least[1]

    def _allowance(self, age: int) -> int:
        """Return how often a batch of some age may have been drawn."""
        return -(-self._iterations * (age + 1) // self._num_batches)

    def get_state(self) -> list[tuple[T, int] | None]:
        """Return the batches with how often each was drawn, the newest first; None: has left."""
        return [None if e is None else (e.batch, e.num_uses) for e in self._entries]

    def set_state(self, state: Sequence[tuple[T, int] | None]) -> None:
        """Take over `get_state`'s, also of a buffer of another size: what does not fit is left."""
        self._entries = [
            None if entry is None or entry[1] >= self._iterations else _Entry(*entry)
            for entry in state[: self._num_batches]
        ]
