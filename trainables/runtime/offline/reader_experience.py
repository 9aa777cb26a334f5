"""`ReaderExperience`: the batches that a reader of one's own gives, drawn from as experience."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.data_rows import DataRows, RewardBound, bounded
from trainables.runtime.offline.data_set import DataSet
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.read_options import ReadOptions
from trainables.runtime.offline.reader_batches import data_set_of, episodes_of
from trainables.runtime.offline.returns import discounted_sums, windows_to_end
from trainables.runtime.replay.draws import Draws, Windows
from trainables.runtime.replay.experience import NStep

_MOST_EMPTY = 1000  # batches without rows that a reader may give one after another


class ReaderExperience(Draws):
    """The last batches of a reader as `Experience`.

    For each draw as many rows are read as it has, at least one batch, and the oldest batches are
    let go. Rows are drawn uniformly from those that are kept.

    Args:
        reader: Gives batches, see `InputReader`.
        name: What messages call it.
        policy: Who learns from it.
        seed: The seed of the draws.
        num_batches: Batches that are kept to draw from; they are read before the first draw.
        reward_bound: What is learned from of a reward, see the setting `clip_rewards`.
        options: How values are taken.

    Raises:
        DataError: naming batch, row and column of what does not fit.
    """

    _rows: DataRows

    def __init__(
        self,
        reader: Any,
        name: str,
        policy: Policy,
        seed: np.random.SeedSequence,
        *,
        num_batches: int = 1,
        reward_bound: RewardBound = False,
        options: ReadOptions | None = None,
    ):
        self._reader, self._name, self._policy = reader, name, policy
        self._bound, self._options = reward_bound, options or ReadOptions()
        self._spaces = DataSpaces(policy.observation_space, policy.action_space)
        self._num_kept = max(1, num_batches)
        self._kept: deque[list[Episode]] = deque()
        self._num_read = self._num_added = 0
        self._fill(self._num_kept)
        self._ahead = self._num_added  # rows read before the first draw, which is made of them
        self._returns: dict[float, np.ndarray] = {}
        super().__init__(self._window(), policy.observations.layout, seed)

    @property
    def num_added(self) -> int:
        """Rows that were read."""
        return self._num_added

    @property
    def nbytes(self) -> int:
        """Allocated bytes."""
        return self._data.nbytes

    def sample(
        self,
        batch_size: int,
        num_batches: int = 1,
        *,
        gamma: float,
        n_step: NStep = 1,
        beta: float = 1.0,
    ) -> Batch:
        """Read on, then draw; see `Draws.sample`."""
        self._go_on(batch_size * num_batches)
        return super().sample(batch_size, num_batches, gamma=gamma, n_step=n_step, beta=beta)

    def sample_sequences(
        self, batch_size: int, length: int, *, n_step: int | Sequence[int] = 1
    ) -> Batch:
        """Read on, then draw runs of consecutive rows; see `Draws.sample_sequences`."""
        self._go_on(batch_size * length)
        return super().sample_sequences(batch_size, length, n_step=n_step)

    def _go_on(self, num_rows: int) -> None:
        """Read as many rows as are drawn, at least one batch."""
        read, self._ahead = self._ahead, 0
        batches = len(self._kept) if read else 0
        while read < num_rows:
            read += self._read()
            batches += 1
            while len(self._kept) > max(self._num_kept, batches):
                self._kept.popleft()
        self._rows = self._window()

    def _fill(self, num_batches: int) -> None:
        """Keep so many batches."""
        while len(self._kept) < num_batches:
            self._read()

    def _read(self) -> int:
        """Read a batch with rows; return how many it has."""
        for _ in range(_MOST_EMPTY):
            where = f"batch {self._num_read} of {self._name}"
            try:
                batch = self._reader.next()
            except StopIteration:
                raise DataError(
                    f"{where}: the reader has no more; allowed: a reader that begins anew"
                ) from None
            self._num_read += 1
            episodes = episodes_of(batch, self._spaces, self._options, where)
            if episodes:
                self._kept.append(episodes)
                num_rows = sum(map(len, episodes))
                self._num_added += num_rows
                return num_rows
        raise DataError(f"{self._name} gave {_MOST_EMPTY} batches without rows to learn from")

    def _window(self) -> DataRows:
        """Return the rows of the batches that are kept."""
        episodes = [episode for batch in self._kept for episode in batch]
        self._data: DataSet = data_set_of(episodes, self._spaces, self._name)
        self._returns = {}
        return DataRows(self._data, self._policy, self._bound)

    def _to_end(self, ids: np.ndarray, gamma: float) -> Windows:
        if gamma not in self._returns:
            rewards = bounded(self._data.columns["rewards"], self._bound)
            self._returns[gamma], _ = discounted_sums(rewards, self._data.columns["valid"], gamma)
        return windows_to_end(self._data, self._returns[gamma], ids, gamma)

    def update(self, ids: Tensor, columns: Batch) -> None:
        """Raise: rows of data have no values that could be written back."""
        raise ValueError(f"recorded rows never change: {sorted(columns)} cannot be written to them")

    def clear(self) -> None:
        """Do nothing: it is the reader's."""

    def _nothing_to_draw(self) -> ConfigError:
        return ConfigError(f"{self._name} gave no step to learn from")

    def _no_sequence(self, length: int) -> ConfigError:
        return ConfigError(
            f"a sequence of {length} rows needs {length + 1}, and {self._name} has given "
            f"{self._data.num_rows}: lower max_seq_len (model), raise shuffle_buffer_size, or have "
            "it give larger batches"
        )

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return where the draws are, and where the reader is if it can tell."""
        state: dict[str, Any] = {"rng": self._rng.bit_generator.state, "num_added": self._num_added}
        if hasattr(self._reader, "get_state"):
            state["reader"] = self._reader.get_state()
        return state

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""
        if "rng" not in state or "num_added" not in state:
            raise ConfigError(f"the checkpoint has no state of the reader {self._name}")

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s; what is drawn from next is what is read from there on."""
        self.check_state(state)
        if "reader" in state and hasattr(self._reader, "set_state"):
            self._reader.set_state(state["reader"])
        else:
            logger.warning("%s has no get_state: it is read from its beginning again", self._name)
        self._kept.clear()
        self._fill(self._num_kept - 1)  # the next draw reads one more
        self._ahead, self._num_added = 0, state["num_added"]
        self._rng.bit_generator.state = state["rng"]
