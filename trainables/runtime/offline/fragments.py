"""`EpisodeSplitter`: rollouts of slots that are stepped together become episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trainables.runtime.offline.episode import Episode

_MOST_BYTES = 64 * 2**20  # of episodes that have not ended


class Chunk(NamedTuple):
    """What happened in the slots of one module, `[T, N, …]`; nobody else writes into the arrays.

    Attributes:
        obs: Observations by the data's layout, `[T+1, N, …]`; row t+1 is what row t led to.
        actions: Actions as the environment took them, by the data's layout.
        rewards: Of the actions, float32.
        terminated: Whether a terminal state was reached.
        truncated: Whether the episode was cut.
        valid: Whether somebody acted: not in a row that only resets, nor in one whose environment
            crashed.
        logp: Log-probabilities of the actions; None if nobody knows them.
        first_steps: Steps of the slots' running episodes before row 0, `[N]`.
        follows: Whether it goes on where the chunk before it ended.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    logp: np.ndarray | None
    first_steps: np.ndarray
    follows: bool

    @property
    def num_rows(self) -> int:
        """Rows of all slots."""
        return self.valid.size

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(part.nbytes for part in self if isinstance(part, np.ndarray))


def joined(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Yield chunks with those that follow each other put together along time."""
    begin = 0
    for stop in range(1, len(chunks) + 1):
        if stop == len(chunks) or not chunks[stop].follows:
            yield _concatenated(chunks[begin:stop])
            begin = stop


def _concatenated(chunks: Sequence[Chunk]) -> Chunk:
    first, last = chunks[0], chunks[-1]
    if first is last:
        return first
    names = ("actions", "rewards", "terminated", "truncated", "valid")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(c, name) for c in chunks]) for name in names
    }
    noted = [chunk.logp for chunk in chunks if chunk.logp is not None]
    return first._replace(
        obs=np.concatenate([*(chunk.obs[:-1] for chunk in chunks), last.obs[-1:]]),
        logp=np.concatenate(noted) if noted else None,
        **columns,
    )


def _by_slot(chunk: Chunk) -> Chunk:
    """Return a chunk whose arrays are `[N, T, …]`: a slot's rows lie side by side."""
    columns: dict[str, Any] = {
        name: np.ascontiguousarray(part.swapaxes(0, 1))
        for name, part in chunk._asdict().items()
        if isinstance(part, np.ndarray) and name != "first_steps"
    }
    return chunk._replace(**columns)


class _Piece(NamedTuple):
    """Consecutive rows of an episode, `[L, …]`."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    logp: np.ndarray | None


@dataclass
class _Running:
    """An episode that has not ended: its rows that have not been given out."""

    episode_id: str
    first_step: int
    pieces: list[_Piece] = field(default_factory=list)
    num_rows: int = 0
    nbytes: int = 0
    last_obs: np.ndarray | None = None


class EpisodeSplitter:
    """Gives out the episodes of chunks as they end, and keeps what runs on until then.

    An episode that is cut, as its environment crashed or was reset, is given out with neither
    flag. What is kept is bounded: the longest running episode is given out in parts.

    Args:
        name: What the ids of its episodes begin with.
        module_id: The module that acts in them.
        most_bytes: Bytes of running episodes that are kept at most.
    """

    def __init__(self, name: str, module_id: str, most_bytes: int = _MOST_BYTES):
        self._name, self._module_id, self._most = name, module_id, most_bytes
        self._running: dict[int, _Running] = {}  # by slot
        self._num_episodes = self._nbytes = 0

    def add(self, chunk: Chunk) -> Iterator[Episode]:
        """Take what happened next; yield the episodes that end in it, slot by slot."""
        num_steps, num_slots = chunk.valid.shape
        if not chunk.follows:
            yield from self.cut()
        for slot in [s for s in self._running if s < num_slots and not chunk.valid[0, s]]:
            yield from self._end(slot, False, False)
        by_slot = _by_slot(chunk)
        padded = np.zeros((num_slots, num_steps + 2), np.int8)
        padded[:, 1:-1] = by_slot.valid
        edges = np.diff(padded, axis=1)
        slots, starts = np.nonzero(edges == 1)
        _, stops = np.nonzero(edges == -1)
        last = (slots, stops - 1)
        terminated, truncated = by_slot.terminated[last].tolist(), by_slot.truncated[last].tolist()
        runs = zip(
            slots.tolist(), starts.tolist(), stops.tolist(), terminated, truncated, strict=True
        )
        for slot, start, stop, is_terminated, is_truncated in runs:
            ends = is_terminated or is_truncated or stop < num_steps
            if ends and start:  # the most frequent kind of short ones: nothing is kept of it
                yield self._whole(by_slot, slot, start, stop, is_terminated, is_truncated)
                continue
            self._extend(by_slot, slot, start, stop)
            if ends:
                yield from self._end(slot, is_terminated, is_truncated)
        while self._nbytes > self._most:
            longest = max(self._running.values(), key=lambda running: running.nbytes)
            yield self._given(longest, False, False)

    def cut(self) -> Iterator[Episode]:
        """Yield what has not ended: it will not go on."""
        for slot in [*self._running]:
            yield from self._end(slot, False, False)

    def _whole(
        self, chunk: Chunk, slot: int, start: int, stop: int, terminated: bool, truncated: bool
    ) -> Episode:
        """Return an episode that begins amid a chunk by slots and ends in it: views of its rows."""
        self._num_episodes += 1
        return Episode(
            obs=chunk.obs[slot, start : stop + 1],
            actions=chunk.actions[slot, start:stop],
            rewards=chunk.rewards[slot, start:stop],
            terminated=terminated,
            truncated=truncated,
            logp=None if chunk.logp is None else chunk.logp[slot, start:stop],
            episode_id=f"{self._name}-{self._num_episodes - 1}",
            module_id=self._module_id,
        )

    def _extend(self, chunk: Chunk, slot: int, start: int, stop: int) -> None:
        """Append rows of a chunk by slots to a slot's running episode, which they may begin."""
        running = self._running.get(slot)
        if running is None:
            first_step = int(chunk.first_steps[slot]) if start == 0 else 0
            running = _Running(f"{self._name}-{self._num_episodes}", first_step)
            self._running[slot] = running
            self._num_episodes += 1
        # Copies: what waits for its end must not keep the rows of all slots.
        columns = (chunk.obs, chunk.actions, chunk.rewards, chunk.logp)
        parts = [None if c is None else c[slot, start:stop].copy() for c in columns]
        obs, actions, rewards, logp = parts
        assert obs is not None and actions is not None and rewards is not None
        running.pieces.append(_Piece(obs, actions, rewards, logp))
        running.num_rows += stop - start
        running.last_obs = chunk.obs[slot, stop : stop + 1].copy()
        added = obs.nbytes + actions.nbytes + rewards.nbytes
        running.nbytes += added
        self._nbytes += added

    def _end(self, slot: int, terminated: bool, truncated: bool) -> Iterator[Episode]:
        running = self._running.pop(slot)
        if running.pieces:
            yield self._given(running, terminated, truncated)

    def _given(self, running: _Running, terminated: bool, truncated: bool) -> Episode:
        """Return the rows that are kept of an episode; it may go on after them."""
        pieces, first_step = running.pieces, running.first_step
        self._nbytes -= running.nbytes
        running.first_step += running.num_rows
        running.pieces, running.num_rows, running.nbytes = [], 0, 0
        assert running.last_obs is not None
        noted = [piece.logp for piece in pieces if piece.logp is not None]
        return Episode(
            obs=np.concatenate([*(piece.obs for piece in pieces), running.last_obs]),
            actions=np.concatenate([piece.actions for piece in pieces]),
            rewards=np.concatenate([piece.rewards for piece in pieces]),
            terminated=terminated,
            truncated=truncated,
            logp=np.concatenate(noted) if noted else None,
            episode_id=running.episode_id,
            first_step=first_step,
            module_id=self._module_id,
        )
