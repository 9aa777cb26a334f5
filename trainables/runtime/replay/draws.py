"""`Draws`: transitions, n-step windows and sequences of stored rows, drawn at random."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from trainables.core.data.batch import Batch, tree_columns
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.runtime.replay.experience import NStep
from trainables.runtime.replay.rows import Rows


class Windows(NamedTuple):
    """N-step windows, each `[M]`.

    Attributes:
        last: Their last rows.
        n_steps: Their lengths.
        rewards: The discounted sums of rewards.
        discounts: Of the value of what follows: gamma^n_steps, or 0 after a termination.
    """

    last: np.ndarray
    n_steps: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray


class Draws(ABC):
    """Part of a replay buffer, and of data that nobody adds to.

    Args:
        rows: What is drawn from.
        layout: How observations are stored.
        seed: The seed of the draws.
    """

    def __init__(self, rows: Rows, layout: ObservationLayout, seed: np.random.SeedSequence):
        self._rows, self._layout = rows, layout
        self._rng = np.random.default_rng(seed)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from another random stream from now on."""
        self._rng = np.random.default_rng(seed)

    @property
    def num_steps(self) -> int:
        """Valid rows: what can be drawn."""
        return self._rows.num_steps

    def __len__(self) -> int:
        return self.num_steps

    @abstractmethod
    def _nothing_to_draw(self) -> ConfigError:
        """Return the error of a draw where there is no row yet."""

    @abstractmethod
    def _no_sequence(self, length: int) -> ConfigError:
        """Return the error of a draw where there is no sequence of so many rows."""

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

        A window ends early with its episode (bootstrapping if that was truncated), at a seam and at
        the newest row; its discount is that of the steps it really has.

        Args:
            batch_size: Rows of a batch. They are drawn with replacement.
            num_batches: Batches, one after another in every column.
            gamma: Discount factor.
            n_step: Steps of a window, or `(lo, hi)`: drawn for each row, both ends included. "end",
                of data: all to the episode's end; rewards are then Monte-Carlo returns, next_obs is
                the episode's last observation. That costs no more than a window of one step.
            beta: Exponent of the importance weights in a prioritised buffer, in [0, 1]: 1 corrects
                the bias of the draws in full.

        Returns:
            Columns `[num_batches * batch_size, ...]` on the CPU: ids, obs, actions, rewards (the
            discounted sum over the window), next_obs, discounts (of next_obs' value: gamma^n_steps,
            or 0 after a termination), n_steps, weights (importance weights, at most 1 in each
            batch; 1 in a uniform buffer), and what `add_column` has made. Where observations are
            records, obs and next_obs are a column for each leaf, `tree_of(batch, "obs")`.

        Raises:
            ConfigError: if there is no row yet.
        """
        ids, weights = self._draw(batch_size, num_batches, beta)
        return self._transitions(ids, weights, self._windows(ids, gamma, n_step))

    def _windows(self, ids: np.ndarray, gamma: float, n_step: NStep) -> Windows:
        """Return the windows that begin in valid rows `[M]`."""
        if n_step == "end":
            return self._to_end(ids, gamma)
        rows = self._rows
        low, high = (n_step, n_step) if isinstance(n_step, int) else n_step
        powers = np.power(float(gamma), np.arange(high + 1)).astype(np.float32)
        if high == 1:
            last, n_steps = ids, np.ones(len(ids), np.int64)
            rewards = rows.read("rewards", ids)
        else:
            steps = high if low == high else self._rng.integers(low, high + 1, len(ids))
            last, n_steps, rewards = rows.windows(ids, steps, powers[:-1])
        discounts = powers.take(n_steps) * ~rows.columns["terminated"].take(last)
        return Windows(last, n_steps, rewards, discounts)

    def _to_end(self, ids: np.ndarray, gamma: float) -> Windows:
        """Return the windows from valid rows `[M]` to the ends of their episodes."""
        raise ConfigError(
            "returns to the end of an episode need data that hold it: the end of what is being "
            "sampled is not known yet; allowed: input_ without 'sampler'"
        )

    def _transitions(self, ids: np.ndarray, weights: np.ndarray, windows: Windows) -> Batch:
        """Return what a sample has of rows `[M]` and the windows that begin there."""
        rows = self._rows
        columns = {
            "ids": ids,
            "actions": rows.read("actions", ids),
            "rewards": windows.rewards,
            "discounts": windows.discounts,
            "n_steps": windows.n_steps,
            "weights": weights,
            **{name: rows.read(name, ids) for name in rows.extra},
        }
        obs, next_obs = rows.observations(ids), rows.observations(rows.next(windows.last))
        return as_tensors(columns) | self._obs("obs", obs) | self._obs("next_obs", next_obs)

    def _obs(self, name: str, rows: np.ndarray) -> Batch:
        """Return observations as columns of tensors: one of a plain space, else one a leaf."""
        if self._layout.is_plain:
            return {name: torch.from_numpy(rows)}
        return tree_columns(name, as_tensors(self._layout.leaves(rows)))

    def num_sequences(self, length: int) -> int:
        """Return how many sequences of `length` rows `sample_sequences` may draw."""
        return int(self._rows.sequence_starts(length)[1].sum())

    def sample_sequences(
        self, batch_size: int, length: int, *, n_step: int | Sequence[int] = 1
    ) -> Batch:
        """Draw runs of consecutive rows, each of one slot.

        Episodes end and begin inside of them: `is_first` says where a state is reset, `valid` what
        to train a policy on, `is_last` which rows are no steps but hold the last observation of an
        episode, for what learns from observations (rewards, continuation). A sequence may begin
        amid an episode, with the state that was kept there; in a buffer without states what came
        before it is not looked at.

        Args:
            batch_size: Sequences B. All starts are equally likely: every row, or those that a state
                was kept of.
            length: Rows L of each.
            n_step: Steps of each row's return, or `(lo, hi)`, see `sample`. Windows that run over
                the end are the caller's business.

        Returns:
            Columns `[L, B, ...]` on the CPU: ids, actions, rewards, terminated, truncated, valid,
            is_first, is_last, n_steps (asked for), and what `add_column` has made; obs,
            `[L+1, B, ...]`, as in `sample`; and the states before the first rows, `[B, ...]`, by
            `tree_of(batch, "state")`.

        Raises:
            ConfigError: if the buffer holds no such sequence.
        """
        rows = self._rows
        oldest, counts = rows.sequence_starts(length)  # the last row's successor is there, too
        behind = counts.cumsum()  # numbers of starts, slot by slot
        if not behind[-1]:
            raise self._no_sequence(length)
        number = self._rng.integers(behind[-1], size=batch_size)
        slots = np.searchsorted(behind, number, side="right")
        drawn = number - (behind - counts)[slots]
        stride = 1 if rows.states is None else rows.states.stride
        run = rows.next(slots, oldest[slots] + drawn * stride + np.arange(length + 1)[:, None])
        ids = run[:-1]
        columns = {name: rows.read(name, ids) for name in rows.columns}
        columns["is_last"] = rows.is_last(ids)
        low, high = (n_step, n_step) if isinstance(n_step, int) else n_step
        fixed = np.full(ids.shape, high)
        columns["n_steps"] = fixed if low == high else self._rng.integers(low, high + 1, ids.shape)
        batch = as_tensors(columns | {"ids": ids}) | self._obs("obs", rows.observations(run))
        if rows.states is not None:
            batch |= tree_columns("state", as_tensors(rows.states.read(run[0])))
        return batch

    def _draw(
        self, batch_size: int, num_batches: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw valid rows and their importance weights, `[num_batches * batch_size]`."""
        if not self.num_steps:
            raise self._nothing_to_draw()
        ids = self._draw_uniformly(batch_size * num_batches)
        return ids, np.ones(len(ids), np.float32)

    def _draw_uniformly(self, count: int) -> np.ndarray:
        """Draw valid rows with replacement, equally likely: by rejection where most are valid."""
        rows = self._rows
        valid = rows.columns["valid"][: rows.filled * rows.num_slots]
        drawn = np.empty(0, np.int64)
        if 4 * self.num_steps > len(valid):
            size = count * len(valid) // self.num_steps + 16
            candidates = self._rng.integers(len(valid), size=size)
            drawn = candidates[valid.take(candidates)][:count]
        if len(drawn) < count:  # too few were valid: number those that are
            rest = self._rng.integers(self.num_steps, size=count - len(drawn))
            drawn = np.concatenate([drawn, self._valid_rows(rest)])
        return drawn

    def _valid_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return those of the valid rows, in their order, that have these numbers `[M]`."""
        rows = self._rows
        return rows.columns["valid"][: rows.filled * rows.num_slots].nonzero()[0][numbers]


def as_tensors(columns: dict[str, np.ndarray]) -> Batch:
    """Return columns as tensors that share their memory."""
    return {name: torch.from_numpy(column) for name, column in columns.items()}
