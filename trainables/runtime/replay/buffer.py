"""`ReplayBuffer`: draws transitions, n-step windows and sequences from a ring of rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.batch import Batch, Rollout, tree_columns
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.runtime.replay.priorities import Priorities, importance_weights
from trainables.runtime.replay.ring import Ring
from trainables.runtime.replay.stores import StateLayout


class ReplayBuffer:
    """The last `capacity` rows of experience, drawn uniformly or by priority.

    Args:
        config: Type, capacity, storage and the constants of prioritised replay.
        layout: How observations are stored.
        action_shape: The shape of one action.
        action_dtype: The dtype of actions.
        num_slots: Columns N of every rollout that is added.
        seed: The seed of the draws.
        num_frames: Observations that are drawn as one, k: `[..., k, *shape]`, oldest first.
        states: Which recurrent states are kept for sequences, if any.

    Raises:
        ConfigError: if the capacity holds no transition of every slot, or the observations cannot
            be stored as `storage` says.
    """

    def __init__(
        self,
        config: ReplayBufferConfig,
        layout: ObservationLayout,
        action_shape: tuple[int, ...],
        action_dtype: torch.dtype,
        num_slots: int,
        seed: np.random.SeedSequence,
        num_frames: int = 1,
        states: StateLayout | None = None,
    ):
        self.config, self.num_slots, self._states = config, num_slots, states
        self._layout = layout
        self._rng = np.random.default_rng(seed)
        self._check_capacity(rollout_length=1)
        self._ring = Ring(
            self._num_positions,
            num_slots,
            layout,
            config.storage,
            action_shape,
            _numpy_dtype(action_dtype),
            num_frames,
            states,
        )
        self._priorities = self._make_priorities()

    def _make_priorities(self) -> Priorities | None:
        if not self.config.prioritized:
            return None
        return Priorities(self._ring.num_rows, self.config.alpha, self.config.eps)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from another random stream from now on."""
        self._rng = np.random.default_rng(seed)

    def clear(self) -> None:
        """Forget all rows, and give their memory back. The random state goes on."""
        self._ring.clear()
        self._priorities = self._make_priorities()

    @property
    def num_steps(self) -> int:
        """Valid rows in the buffer: what can be drawn."""
        return self._ring.num_steps

    @property
    def num_added(self) -> int:
        """Valid rows ever added since it was empty."""
        return self._ring.num_added

    def __len__(self) -> int:
        return self.num_steps

    @property
    def nbytes(self) -> int:
        """Allocated bytes. The system provides those of arrays only as rows are filled."""
        return self._ring.nbytes + (self._priorities.nbytes if self._priorities else 0)

    # ------------------------------------------------------------------ writing

    def add(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]`; the oldest rows make way.

        Raises:
            ConfigError: if the capacity cannot hold it.
        """
        length, columns = rollout.rewards.shape
        if columns != self.num_slots:
            raise ValueError(f"a rollout of {columns} columns in a buffer of {self.num_slots}")
        self._check_capacity(length)
        ids, valid = self._ring.write(rollout)
        if self._priorities is not None:
            self._priorities.add(ids, valid)

    def add_episodes(self, rollout: Rollout) -> None:
        """Write a rollout `[T, N]` of whole episodes: how long they are, nobody knows in advance.

        Of one that is longer than the buffer has room for, the newest rows stay.
        """
        length, most = len(rollout.rewards), self._num_positions - 1
        for first in range(0, length, most):
            self.add(_rows(rollout, first, min(first + most, length)))

    def add_column(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, *, of_last: bool = False
    ) -> None:
        """Keep another value of each row: 0 until `update` writes it; samples carry it.

        Args:
            name: A name that is not yet a column's.
            shape: The shape of one row's value.
            dtype: The dtype of the values.
            of_last: Whether the last observations of episodes have values, too, e.g. what a model
                predicts from them: `update` writes to their rows as it does to valid ones.
        """
        if name in (*self._ring.columns, *_SAMPLE_COLUMNS):
            raise ValueError(f"the replay buffer has a column {name!r} already")
        self._ring.add_column(name, shape, _numpy_dtype(dtype), of_last=of_last)

    def update(self, ids: Tensor, columns: Batch) -> None:
        """Write values of rows back. Rows that are not valid by now are left alone.

        In a column that was added for them, too, last observations of episodes have values as well.

        Args:
            ids: Rows, as a sample gave them, of any shape.
            columns: Values by name, `[*ids.shape, ...]`: `priorities` (|TD error| or loss, >= 0),
                or what `add_column` has made.
        """
        rows = ids.reshape(-1).cpu().numpy()
        valid = self._ring.columns["valid"].take(rows)
        for name, values in columns.items():
            new = values.detach().cpu().numpy()
            if name == "priorities" and self._priorities is not None:
                self._priorities.update(rows, new.reshape(-1), valid)
            elif name in self._ring.extra:
                column, kept = self._ring.columns[name], valid
                if name in self._ring.of_last:
                    kept = valid | self._ring.is_last(rows)
                column[rows[kept]] = new.reshape(len(rows), *column.shape[1:])[kept]
            else:
                known = [*self._ring.extra, *(["priorities"] if self._priorities else [])]
                raise ValueError(f"{name!r} cannot be written to this replay buffer, but: {known}")

    @property
    def _num_positions(self) -> int:
        """Rows of each slot: as many as the capacity has room for, and states are kept of."""
        stride = 1 if self._states is None else self._states.stride
        return self.config.capacity // self.num_slots // stride * stride

    def _check_capacity(self, rollout_length: int) -> None:
        capacity, slots = self.config.capacity, self.num_slots
        needed = rollout_length + 1
        if self._num_positions < needed:
            raise ConfigError(
                f"replay_buffer_config: capacity = {capacity} is {self._num_positions} rows for "
                f"each of {slots} slots; a rollout of {rollout_length} steps takes {needed}: raise "
                f"capacity to at least {needed * slots}, or lower rollout_fragment_length or "
                "num_envs_per_env_runner"
            )

    # ------------------------------------------------------------------ sampling

    def sample(
        self,
        batch_size: int,
        num_batches: int = 1,
        *,
        gamma: float,
        n_step: int | Sequence[int] = 1,
        beta: float = 1.0,
    ) -> Batch:
        """Draw transitions, or n-step windows, of several batches at once.

        A window ends early with its episode (bootstrapping if that was truncated), at a seam and at
        the newest row; its discount is that of the steps it really has.

        Args:
            batch_size: Rows of a batch. They are drawn with replacement.
            num_batches: Batches, one after another in every column.
            gamma: Discount factor.
            n_step: Steps of a window, or `(lo, hi)`: drawn for each row, both ends included.
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
        ring = self._ring
        ids, weights = self._draw(batch_size, num_batches, beta)
        low, high = (n_step, n_step) if isinstance(n_step, int) else n_step
        powers = np.power(float(gamma), np.arange(high + 1)).astype(np.float32)
        if high == 1:
            last, n_steps = ids, np.ones(len(ids), np.int64)
            rewards = ring.columns["rewards"].take(ids)
        else:
            steps = high if low == high else self._rng.integers(low, high + 1, len(ids))
            last, n_steps, rewards = ring.windows(ids, steps, powers[:-1])
        columns = {
            "ids": ids,
            "actions": ring.columns["actions"].take(ids, axis=0),
            "rewards": rewards,
            "discounts": powers.take(n_steps) * ~ring.columns["terminated"].take(last),
            "n_steps": n_steps,
            "weights": weights,
            **{name: ring.columns[name].take(ids, axis=0) for name in ring.extra},
        }
        obs, next_obs = ring.observations(ids), ring.observations(ring.next(last))
        return _as_tensors(columns) | self._obs("obs", obs) | self._obs("next_obs", next_obs)

    def _obs(self, name: str, rows: np.ndarray) -> Batch:
        """Return observations as columns of tensors: one of a plain space, else one a leaf."""
        if self._layout.is_plain:
            return {name: torch.from_numpy(rows)}
        return tree_columns(name, _as_tensors(self._layout.leaves(rows)))

    def num_sequences(self, length: int) -> int:
        """Return how many sequences of `length` rows `sample_sequences` may draw."""
        return self._ring.sequence_starts(length)[1] * self.num_slots

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
        ring = self._ring
        oldest, starts = ring.sequence_starts(length)  # the last row's successor is there, too
        if not starts:
            raise ConfigError(
                f"a sequence of {length} rows needs {length + 1} of a slot, and the replay buffer "
                f"has {ring.filled}: raise num_steps_sampled_before_learning_starts, or "
                f"replay_buffer_config: capacity = {self.config.capacity}, which is "
                f"{ring.num_positions} rows for each of {self.num_slots} slots"
            )
        drawn, slots = np.divmod(
            self._rng.integers(starts * self.num_slots, size=batch_size), self.num_slots
        )
        stride = 1 if ring.states is None else ring.states.stride
        rows = ring.next(slots, oldest + drawn * stride + np.arange(length + 1)[:, None])
        ids = rows[:-1]
        columns = {name: column.take(ids, axis=0) for name, column in ring.columns.items()}
        columns["is_last"] = ring.is_last(ids)
        low, high = (n_step, n_step) if isinstance(n_step, int) else n_step
        fixed = np.full(ids.shape, high)
        columns["n_steps"] = fixed if low == high else self._rng.integers(low, high + 1, ids.shape)
        batch = _as_tensors(columns | {"ids": ids}) | self._obs("obs", ring.observations(rows))
        if ring.states is not None:
            batch |= tree_columns("state", _as_tensors(ring.states.read(rows[0])))
        return batch

    def _draw(
        self, batch_size: int, num_batches: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw valid rows and their importance weights, `[num_batches * batch_size]`."""
        if not self.num_steps:
            raise ConfigError(
                "the replay buffer is empty: raise num_steps_sampled_before_learning_starts"
            )
        if self._priorities is None:
            ids = self._draw_uniformly(batch_size * num_batches)
            return ids, np.ones(len(ids), np.float32)
        drawn, leaves = self._priorities.sample(batch_size, num_batches, self._rng)
        return drawn.reshape(-1), importance_weights(leaves, beta).reshape(-1)

    def _draw_uniformly(self, count: int) -> np.ndarray:
        """Draw valid rows with replacement, equally likely: by rejection where most are valid."""
        valid = self._ring.columns["valid"][: self._ring.filled * self.num_slots]
        drawn = np.empty(0, np.int64)
        if 4 * self.num_steps > len(valid):
            size = count * len(valid) // self.num_steps + 16
            candidates = self._rng.integers(len(valid), size=size)
            drawn = candidates[valid.take(candidates)][:count]
        if len(drawn) < count:  # too few were valid: list those that are
            rows = valid.nonzero()[0]
            rest = self._rng.integers(len(rows), size=count - len(drawn))
            drawn = np.concatenate([drawn, rows[rest]])
        return drawn

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the next draws depend on."""
        ring, priorities = self._ring, self._priorities
        return {
            "settings": self._settings(),
            "rng": self._rng.bit_generator.state,
            "ring": ring.get_state(),
            "priorities": priorities and priorities.get_state(ring.filled * self.num_slots),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: naming the setting that differs from the saved buffer's.
        """
        self.check_state(state)
        self._ring.set_state(state["ring"])
        self._priorities = self._make_priorities()
        if self._priorities is not None:
            self._priorities.set_state(state["priorities"])
        self._rng.bit_generator.state = state["rng"]

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise what `set_state` would raise, and change nothing."""
        saved = state["settings"]
        for name, value in self._settings().items():
            if saved.get(name) != value:
                raise ConfigError(
                    f"{name} = {value!r}, but the saved replay buffer has {saved.get(name)!r}: "
                    "they must agree"
                )

    def _settings(self) -> dict[str, Any]:
        """Return what a saved buffer must agree in. Stored priorities hold alpha and eps."""
        config = self.config
        constants = (config.alpha, config.eps) if config.prioritized else (None, None)
        return {
            "replay_buffer_config: type": "prioritized" if config.prioritized else "uniform",
            "replay_buffer_config: capacity": config.capacity,
            "replay_buffer_config: alpha": constants[0],
            "replay_buffer_config: eps": constants[1],
            "replay_buffer_config: storage": config.storage,
            "slots of all env runners (num_envs_per_env_runner)": self.num_slots,
            "recurrent states (model)": _described(self._states),
            "observation_space": f"{self._layout.dtype} {self._layout.shape}",
            "columns (action_space)": {
                name: f"{dtype} {shape}" for name, (shape, dtype) in self._ring.layout.items()
            },
        }


def _described(states: StateLayout | None) -> str:
    if states is None:
        return "none"
    fields = {name: f"{dtype} {shape}" for name, (shape, dtype) in states.fields.items()}
    return f"{fields}, one of {states.stride} rows"


_SAMPLE_COLUMNS = (
    *("ids", "obs", "next_obs", "discounts", "n_steps", "weights", "priorities", "is_last"),
)


def _rows(rollout: Rollout, first: int, last: int) -> Rollout:
    """Return the rows from `first` to before `last`, which go on where those before them end."""
    by_row = ("actions", "rewards", "terminated", "truncated", "logp", "valid", "continues")
    columns: dict[str, Any] = {name: getattr(rollout, name)[first:last] for name in by_row}
    columns["obs"] = rollout.obs[first : last + 1]
    if rollout.states is not None and rollout.state_stride == 1:  # others are not kept
        columns["states"] = {name: part[first:last] for name, part in rollout.states.items()}
    return replace(rollout, **columns, follows=rollout.follows | (first > 0))


def _numpy_dtype(dtype: torch.dtype) -> np.dtype:
    return torch.empty(0, dtype=dtype).numpy().dtype


def _as_tensors(columns: dict[str, np.ndarray]) -> Batch:
    return {name: torch.from_numpy(column) for name, column in columns.items()}
