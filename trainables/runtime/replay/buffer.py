"""`ReplayBuffer`: draws transitions, n-step windows and sequences from a ring of rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.replay import ReplayBufferConfig
from trainables.core.data.batch import Batch, Rollout
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.runtime.replay.columns import fitted
from trainables.runtime.replay.draws import Draws
from trainables.runtime.replay.priorities import Priorities, importance_weights
from trainables.runtime.replay.ring import Ring
from trainables.runtime.replay.stores import StateLayout


class ReplayBuffer(Draws):
    """The last `capacity` rows of experience, drawn uniformly or by priority.

    Args:
        config: Type, capacity, storage and the constants of prioritised replay.
        layout: How observations are stored.
        action_shape: The shape of one action.
        action_dtype: The dtype of actions.
        num_slots: Columns N that it has. Rollouts of fewer or more are made to fit, see `columns`.
        seed: The seed of the draws.
        num_frames: Observations that are drawn as one, k: `[..., k, *shape]`, oldest first.
        states: Which recurrent states are kept for sequences, if any.

    Raises:
        ConfigError: if the capacity holds no transition of every slot, or the observations cannot
            be stored as `storage` says.
    """

    _rows: Ring

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
        self._check_capacity(rollout_length=1)
        ring = Ring(
            self._num_positions,
            num_slots,
            layout,
            config.storage,
            action_shape,
            _numpy_dtype(action_dtype),
            num_frames,
            states,
        )
        super().__init__(ring, layout, seed)
        self._num_columns = 0  # of the rollout that was added last
        self._priorities = self._make_priorities()

    def _make_priorities(self) -> Priorities | None:
        if not self.config.prioritized:
            return None
        return Priorities(self._rows.num_rows, self.config.alpha, self.config.eps)

    def clear(self) -> None:
        """Forget all rows, and give their memory back. The random state goes on."""
        self._rows.clear()
        self._priorities = self._make_priorities()

    @property
    def num_added(self) -> int:
        """Valid rows ever added since it was empty."""
        return self._rows.num_added

    @property
    def nbytes(self) -> int:
        """Allocated bytes. The system provides those of arrays only as rows are filled."""
        return self._rows.nbytes + (self._priorities.nbytes if self._priorities else 0)

    # ------------------------------------------------------------------ writing

    def add(self, rollout: Rollout) -> None:
        """Write a rollout `[T, M]`, M not always N; the oldest rows make way.

        Raises:
            ConfigError: if the capacity cannot hold it.
        """
        length, num_columns = rollout.rewards.shape
        self._check_capacity(length)
        before, self._num_columns = self._num_columns, num_columns
        for block in fitted(rollout, self.num_slots, before):
            ids, valid = self._rows.write(block)
            if self._priorities is not None:
                self._priorities.add(ids, valid)

    def add_episodes(self, rollout: Rollout) -> None:
        """Write a rollout `[T, M]` of whole episodes: how long they are, nobody knows in advance.

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
        if name in (*self._rows.columns, *_SAMPLE_COLUMNS):
            raise ValueError(f"the replay buffer has a column {name!r} already")
        self._rows.add_column(name, shape, _numpy_dtype(dtype), of_last=of_last)

    def update(self, ids: Tensor, columns: Batch) -> None:
        """Write values of rows back. Rows that are not valid by now are left alone.

        In a column that was added for them, too, last observations of episodes have values as well.

        Args:
            ids: Rows, as a sample gave them, of any shape.
            columns: Values by name, `[*ids.shape, ...]`: `priorities` (|TD error| or loss, >= 0),
                or what `add_column` has made.
        """
        rows = ids.reshape(-1).cpu().numpy()
        valid = self._rows.columns["valid"].take(rows)
        for name, values in columns.items():
            new = values.detach().cpu().numpy()
            if name == "priorities" and self._priorities is not None:
                self._priorities.update(rows, new.reshape(-1), valid)
            elif name in self._rows.extra:
                column, kept = self._rows.columns[name], valid
                if name in self._rows.of_last:
                    kept = valid | self._rows.is_last(rows)
                column[rows[kept]] = new.reshape(len(rows), *column.shape[1:])[kept]
            else:
                known = [*self._rows.extra, *(["priorities"] if self._priorities else [])]
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

    # ------------------------------------------------------------------ drawing

    def _draw(
        self, batch_size: int, num_batches: int, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._priorities is None or not self.num_steps:
            return super()._draw(batch_size, num_batches, beta)
        drawn, leaves = self._priorities.sample(batch_size, num_batches, self._rng)
        return drawn.reshape(-1), importance_weights(leaves, beta).reshape(-1)

    def _nothing_to_draw(self) -> ConfigError:
        return ConfigError(
            "the replay buffer is empty: raise num_steps_sampled_before_learning_starts"
        )

    def _no_sequence(self, length: int) -> ConfigError:
        rows = self._rows
        return ConfigError(
            f"a sequence of {length} rows needs {length + 1} of a slot, and the replay buffer "
            f"has {rows.filled}: raise num_steps_sampled_before_learning_starts, or "
            f"replay_buffer_config: capacity = {self.config.capacity}, which is "
            f"{rows.num_positions} rows for each of {self.num_slots} slots"
        )

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of everything that the next draws depend on."""
        ring, priorities = self._rows, self._priorities
        return {
            "settings": self._settings(),
            "rng": self._rng.bit_generator.state,
            "num_columns": self._num_columns,
            "ring": ring.get_state(),
            "priorities": priorities and priorities.get_state(ring.filled * self.num_slots),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: naming the setting that differs from the saved buffer's.
        """
        self.check_state(state)
        self._rows.set_state(state["ring"])
        self._num_columns = int(state.get("num_columns", self.num_slots))  # not in older ones
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
            "slots of all env runners (num_envs_per_env_runner), of agents that policy_mapping_fn "
            "gives the policy": self.num_slots,
            "recurrent states (model)": _described(self._states),
            "observation_space": f"{self._layout.dtype} {self._layout.shape}",
            "columns (action_space)": {
                name: f"{dtype} {shape}" for name, (shape, dtype) in self._rows.layout.items()
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
    if rollout.lengths is not None:
        columns["lengths"] = (rollout.lengths - first).clip(0, last - first)
    if rollout.states is not None and rollout.state_stride == 1:  # others are not kept
        columns["states"] = {name: part[first:last] for name, part in rollout.states.items()}
    return replace(rollout, **columns, follows=rollout.follows | (first > 0))


def _numpy_dtype(dtype: torch.dtype) -> np.dtype:
    return torch.empty(0, dtype=dtype).numpy().dtype
