"""The circular buffer of IMPACT (Luo et al., 2019, arXiv 1912.00167, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
        """The batches that are in it, the newest first."""
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
        """The age of the batch that is drawn next: the least used one, of these the newest."""
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
