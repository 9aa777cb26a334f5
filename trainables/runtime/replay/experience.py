"""`Experience`: what is learned from over and over, wherever it comes from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from torch import Tensor

from trainables.core.data.batch import Batch, Rollout

NStep = int | Sequence[int] | Literal["end"]
"""Steps of a window: n; `(lo, hi)`, drawn for each row, both ends included; "end": all to the end
of the episode, which data know in advance."""


class Experience(Protocol):
    """Rows of one module, drawn at random: a replay buffer, or data that others have gathered.

    What is sampled has the columns that `ReplayBuffer.sample` and `sample_sequences` document.
    """

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Rows that can be drawn."""

    @property
    @abstractmethod
    def num_added(self) -> int:
        """Rows that were ever added since it was empty."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Allocated bytes."""

    @abstractmethod
    def sample(
        self,
        batch_size: int,
        num_batches: int = 1,
        *,
        gamma: float,
        n_step: NStep = 1,
        beta: float = 1.0,
    ) -> Batch:
        """Draw transitions, or n-step windows, of several batches at once.

        Args:
            batch_size: Rows of a batch.
            num_batches: Batches, one after another in every column.
            gamma: Discount factor.
            n_step: Steps of a window.
            beta: Exponent of the importance weights where rows are not drawn uniformly.

        Returns:
            Columns `[num_batches * batch_size, ...]` on the CPU.
        """

    @abstractmethod
    def num_sequences(self, length: int) -> int:
        """Return how many sequences of `length` rows `sample_sequences` may draw."""

    @abstractmethod
    def sample_sequences(
        self, batch_size: int, length: int, *, n_step: int | Sequence[int] = 1
    ) -> Batch:
        """Draw runs of consecutive rows, with the recurrent states before them.

        Args:
            batch_size: Sequences B.
            length: Rows L of each.
            n_step: Steps of each row's return, or `(lo, hi)`, see `sample`.

        Returns:
            Columns `[L, B, ...]` on the CPU, obs `[L+1, B, ...]`, states `[B, ...]`.
        """

    @abstractmethod
    def update(self, ids: Tensor, columns: Batch) -> None:
        """Write values of rows back.

        Args:
            ids: Rows, as a sample gave them, of any shape.
            columns: Values by name, `[*ids.shape, ...]`, e.g. `priorities`.
        """

    @abstractmethod
    def clear(self) -> None:
        """Forget what was added, and nothing that was there from the start."""

    @abstractmethod
    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from another random stream from now on."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the next draws depend on."""

    @abstractmethod
    def check_state(self, state: dict[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if it does not fit.
        """


class GrowingExperience(Experience, Protocol):
    """Experience that what is sampled is added to."""

    @abstractmethod
    def add(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]`."""

    @abstractmethod
    def add_episodes(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]` of whole episodes, as long as they happen to be."""
