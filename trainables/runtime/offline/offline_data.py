"""`OfflineData`: experience that others have recorded, drawn as a replay buffer draws its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.data_rows import DataRows, RewardBound
from trainables.runtime.offline.data_set import DataSet
from trainables.runtime.offline.returns import returns_to_end, windows_to_end
from trainables.runtime.replay.draws import Draws, Windows


class OfflineData(Draws):
    """A data set as `Experience`: windows, stacked frames and sequences as a buffer gives them.

    Nothing is kept in memory: columns are mapped, and what a draw gives is made of a few rows.
    Where a recording ends amid an episode, windows bootstrap from the observation after it, and a
    sequence has a seam, as between rollouts that do not follow each other.

    Args:
        data: The data set.
        policy: Who learns from it.
        seed: The seed of the draws.
        reward_bound: What is learned from of a reward, see the setting `clip_rewards`.

    Raises:
        ConfigError: if the policy's spaces are not the data's.
    """

    _rows: DataRows

    def __init__(
        self,
        data: DataSet,
        policy: Policy,
        seed: np.random.SeedSequence,
        reward_bound: RewardBound = False,
    ):
        super().__init__(DataRows(data, policy, reward_bound), policy.observations.layout, seed)
        self.data, self._bound = data, reward_bound
        self._returns_by_gamma: dict[float, np.ndarray] = {}  # by discount factor

    @property
    def num_added(self) -> int:
        """Rows that were added: none."""
        return 0

    @property
    def nbytes(self) -> int:
        """Allocated bytes: none, all of it is mapped."""
        return 0

    def _to_end(self, ids: np.ndarray, gamma: float) -> Windows:
        returns = self._returns_by_gamma.get(gamma)
        if returns is None:
            returns = returns_to_end(self.data, gamma, self._bound)
            self._returns_by_gamma[gamma] = returns
        return windows_to_end(self.data, returns, ids, gamma)

    def update(self, ids: Tensor, columns: Batch) -> None:
        """Raise: rows of data have no values that could be written back."""
        raise ValueError(f"recorded rows never change: {sorted(columns)} cannot be written to them")

    def clear(self) -> None:
        """Do nothing: nothing was added."""

    def _valid_rows(self, numbers: np.ndarray) -> np.ndarray:
        return self._rows.numbered(numbers)

    def _nothing_to_draw(self) -> ConfigError:
        return ConfigError(f"{self.data.name} holds no step to learn from")

    def _no_sequence(self, length: int) -> ConfigError:
        return ConfigError(
            f"a sequence of {length} rows needs {length + 1}, and {self.data.name} has "
            f"{self.data.num_rows}: lower max_seq_len (model), or give more data"
        )

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return where the draws are, and of which data."""
        return {"rng": self._rng.bit_generator.state, "digest": self.data.digest}

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""
        if state.get("digest") != self.data.digest:
            raise ConfigError(
                f"input_: {self.data.name} holds other data than the checkpoint was trained on "
                f"(digest {self.data.digest}, not {state.get('digest')}); allowed: the same "
                "contents and spaces, or a new run"
            )

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if it is of other data.
        """
        self.check_state(state)
        self._rng.bit_generator.state = state["rng"]
