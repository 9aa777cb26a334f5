"""`LaneRecorder`: records agents that act when they are asked to, in as many lanes as it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.batch import Rollout
from trainables.core.data.stored import like
from trainables.core.networks.memory import state_arrays
from trainables.runtime.sampling.recording import SlotRecorder, StepColumns


@dataclass
class OpenRows:
    """Rows that are acted in, and whose outcome is not known yet, when a rollout ends.

    Attributes:
        lanes: Which lanes have one, `[L]`, bool; the others' entries below mean nothing.
        actions: As the distribution stores them, `[L, …]`.
        inputs: Inputs of the distribution, `[L, num_inputs]`; None if nobody asks for them.
        before: The policy's states before them, `[L, …]` by name.
    """

    lanes: np.ndarray
    actions: Tensor
    inputs: Tensor | None
    before: dict[str, np.ndarray]

    def get_state(self) -> dict[str, Any]:
        """Return the rows as arrays."""
        return {
            "lanes": self.lanes.copy(),
            "actions": self.actions.numpy().copy(),
            "inputs": None if self.inputs is None else self.inputs.numpy().copy(),
            "before": dict(self.before),
        }


class LaneRecorder(SlotRecorder):
    """A `SlotRecorder` whose slots are lanes: columns of a module's rollouts, an agent in each.

    Lanes tick together as long as they can, which is fast. Once an agent is left out while others
    of the module act, each lane has a clock of its own, until the rollout ends: its column has as
    many rows as the agent was shown outcomes, and what is behind them is padding. A row whose
    outcome is not known by then stays open: it is the first one of the lane's next rollout.
    """

    _open: OpenRows | None = None
    _acted = False  # whether the present row, which all lanes share, is acted in
    # Rows whose observation was not shown before, `[T+1, L]`; None if no filter counts them.
    _is_new: np.ndarray | None = None
    _first_is_new: np.ndarray  # those rows that the next rollout begins with, `[L]`

    @property
    def is_split(self) -> bool:
        """Whether lanes have clocks of their own."""
        return self._clock is not None

    # ------------------------------------------------------------------ steps

    def begin_lanes(self, num_steps: int) -> np.ndarray:
        """Begin with the columns of `num_steps` rows.

        Returns:
            Lanes that have acted in their first row already, `[L]`, bool.
        """
        self.begin(num_steps)
        self._acted = False
        self.columns = StepColumns(num_steps, self.num_slots)
        self.columns.valid[:] = False
        if self.policy.observations.filter is not None:
            self._is_new = np.zeros((num_steps + 1, self.num_slots), bool)
            self._is_new[0] = self._first_is_new
        opened, self._open = self._open, None
        if opened is None:
            return np.zeros(self.num_slots, bool)
        if not opened.lanes.all():
            self.split()
        elif self._stride:
            self._own.states.append(state_arrays(self.actor.before))
        self._acted = True
        self._put_back(opened)
        return opened.lanes

    def _put_back(self, opened: OpenRows) -> None:
        own, lanes = self._own, torch.from_numpy(opened.lanes)
        own.actions[0, lanes] = opened.actions[lanes]
        if own.inputs is not None and opened.inputs is not None:
            own.inputs[0, lanes] = opened.inputs[lanes]
        if self._stride:
            for name, part in opened.before.items():
                own.states[0][name][opened.lanes] = part[opened.lanes]

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return actions for the environment, and keep them; see `SlotActor.act`."""
        if slots is not None:
            self.split()
        env_actions = super().act(resets_next, lengths, slots)
        self._acted = True
        return env_actions

    def blank(self) -> None:
        """Make the present row one in which nobody acts: agents take lanes that were idle."""
        assert not self.is_split
        own, row = self._own, self._row
        own.actions[row] = 0
        if own.inputs is not None:
            own.inputs[row] = 0
        if self._stride and row % self._stride == 0:
            own.states.append(state_arrays(self.actor.before))
        self._acted = True

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Keep what lanes are shown as their next rows; see `SlotActor.observe`."""
        super().observe(obs, rewards, is_first, lengths, slots=slots)
        if slots is None:
            self._acted = False

    def close_all(
        self,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        valid: np.ndarray,
        is_new: np.ndarray,
    ) -> None:
        """Write what came of the row that all lanes share; `observe` is called next.

        Args:
            rewards: Of the lanes, `[L]`, as the other columns.
            terminated: See `Rollout`.
            truncated: See `Rollout`.
            valid: See `Rollout`.
            is_new: Lanes whose next observation is none that they were shown before.
        """
        columns, row = self.columns, self._row
        columns.rewards[row], columns.valid[row] = rewards, valid
        columns.terminated[row], columns.truncated[row] = terminated, truncated
        if self._is_new is not None:
            self._is_new[row + 1] = is_new

    def close(
        self,
        lanes: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        valid: np.ndarray,
    ) -> None:
        """Write what came of the present rows of some lanes; `observe` is called next.

        Args:
            lanes: Which lanes, `[L]`, bool.
            rewards: Of all lanes, `[L]`, as the other columns.
            terminated: See `Rollout`.
            truncated: See `Rollout`.
            valid: See `Rollout`.
        """
        columns, row = self.columns, self.clock[lanes]
        columns.rewards[row, lanes] = rewards[lanes]
        columns.valid[row, lanes] = valid[lanes]
        columns.terminated[row, lanes] = terminated[lanes]
        columns.truncated[row, lanes] = truncated[lanes]
        if self._is_new is not None:
            self._is_new[row + 1, lanes] = True

    def split(self) -> None:
        """Let lanes have clocks of their own from the present row on."""
        if self.is_split:
            return
        super().split()
        unused = self._row + self._acted
        self._own.actions[unused:] = 0  # padding must be numbers that a distribution can take
        if self._own.inputs is not None:
            self._own.inputs[unused:] = 0
        for column in (self.columns.rewards, self.columns.terminated, self.columns.truncated):
            column[self._row :] = 0

    @property
    def clock(self) -> np.ndarray:
        """The row that each lane is in, `[L]`."""
        if self._clock is not None:
            return self._clock
        return np.full(self.num_slots, self._row, np.int64)

    def grow(self, num_lanes: int, is_sampling: bool) -> None:
        """Have more lanes, which were idle so far; agents are about to take them.

        Args:
            num_lanes: All lanes from here on.
            is_sampling: Whether there are columns that have begun.
        """
        added = num_lanes - self.num_slots
        self.actor.grow(num_lanes)
        self.num_slots = num_lanes
        self._first_is_new = _grown(self._first_is_new, added, 0)
        if self._open is not None:
            self._open = _grown_rows(self._open, added)
        if not is_sampling:
            return
        own, columns = self._own, self.columns
        own.obs = _grown(own.obs, added, 1)
        own.actions = _grown_tensor(own.actions, added, 1)
        if own.inputs is not None:
            own.inputs = _grown_tensor(own.inputs, added, 1)
        own.states = [
            {name: _grown(part, added, 0) for name, part in state.items()} for state in own.states
        ]
        for name in ("rewards", "terminated", "truncated", "valid"):
            setattr(columns, name, _grown(getattr(columns, name), added, 1))
        if self._clock is not None:
            self._clock = _grown(self._clock, added, 0)
        if self._is_new is not None:
            self._is_new = _grown(self._is_new, added, 1)

    # ------------------------------------------------------------------ rollouts

    def end(self, opened: np.ndarray, weights_version: int, follows: bool) -> Rollout | None:
        """Return what was sampled; the next rollout goes on from its last rows.

        Args:
            opened: Lanes that have acted in their last row and wait for its outcome, `[L]`, bool.
            weights_version: The version of the weights that acted.
            follows: Whether the rollout goes on where the last one ended.

        Returns:
            A column for each lane; None if no lane has a row.
        """
        own, clock = self._own, self.clock
        self._open = self._rows_at(clock, opened) if opened.any() else None
        num_rows = int(clock.max(initial=0))
        if self._is_new is not None:
            self._first_is_new = self._is_new[clock, np.arange(self.num_slots)]
            self._counted = self._is_new[:num_rows] & (np.arange(num_rows)[:, None] < clock)
        if self.is_split:
            at = np.minimum(np.arange(num_rows + 1)[:, None], clock)
            own.obs = own.obs[at, np.arange(self.num_slots)]
        else:
            own.obs = own.obs[: num_rows + 1]
        if not num_rows:
            del self._own
            self.actor.let_go()
            return None
        own.actions = own.actions[:num_rows]
        if own.inputs is not None:
            own.inputs = own.inputs[:num_rows]
        if self._stride:
            own.states = own.states[: -(-num_rows // self._stride)]
        for name in ("rewards", "terminated", "truncated", "valid"):
            setattr(self.columns, name, getattr(self.columns, name)[:num_rows])
        rollout = super().rollout(self.columns, weights_version, follows)
        return replace(rollout, lengths=clock.copy()) if self.is_split else rollout

    def _frames(self, seen: np.ndarray) -> np.ndarray:
        """Return those that lanes were shown: who waits sees the same one again, row by row."""
        return seen if self._counted.all() else seen[self._counted]

    def _rows_at(self, clock: np.ndarray, opened: np.ndarray) -> OpenRows:
        own = self._own
        at = (torch.from_numpy(np.minimum(clock, len(own.actions) - 1)), torch.arange(len(clock)))
        return OpenRows(
            opened.copy(),
            own.actions[at],
            None if own.inputs is None else own.inputs[at],
            state_arrays(self.actor.before),
        )

    # ------------------------------------------------------------------ state

    def restart(self, num_lanes: int, seed: np.random.SeedSequence | None) -> None:
        """Begin anew, with so many lanes.

        Args:
            num_lanes: All lanes from here on.
            seed: The seed of exploration; None: a state will be set.
        """
        self.num_slots = self.actor.num_slots = num_lanes
        self.reseed(seed or np.random.SeedSequence(0))
        self._open = None
        self._first_is_new = np.ones(num_lanes, bool)

    def get_state(self) -> dict[str, Any]:
        opened = None if self._open is None else self._open.get_state()
        new = {} if self._is_new is None else {"first_is_new": self._first_is_new.copy()}
        return {**super().get_state(), **new, "open": opened}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if "first_is_new" in state:
            given = state["first_is_new"]
            self._first_is_new = like(self._first_is_new, given, "first_is_new")
        stored, self._open = state["open"], None
        if stored is None:
            return
        distribution = self.policy.distribution
        shape = (self.num_slots, *distribution.action_shape)
        actions = torch.zeros(shape, dtype=distribution.action_dtype).numpy()
        inputs = np.zeros((self.num_slots, distribution.num_inputs), np.float32)
        before = state_arrays(self.policy.initial_state(self.num_slots))
        self._open = OpenRows(
            like(np.zeros(self.num_slots, bool), stored["lanes"], "open lanes"),
            torch.from_numpy(like(actions, stored["actions"], "open actions")),
            None
            if stored["inputs"] is None
            else torch.from_numpy(like(inputs, stored["inputs"], "open inputs")),
            {name: like(part, stored["before"][name], name) for name, part in before.items()},
        )


def _grown(array: np.ndarray, added: int, axis: int) -> np.ndarray:
    shape = list(array.shape)
    shape[axis] = added
    return np.concatenate([array, np.zeros(shape, array.dtype)], axis=axis)


def _grown_tensor(tensor: Tensor, added: int, dim: int) -> Tensor:
    shape = list(tensor.shape)
    shape[dim] = added
    return torch.cat([tensor, tensor.new_zeros(shape)], dim)


def _grown_rows(opened: OpenRows, added: int) -> OpenRows:
    return OpenRows(
        _grown(opened.lanes, added, 0),
        _grown_tensor(opened.actions, added, 0),
        None if opened.inputs is None else _grown_tensor(opened.inputs, added, 0),
        {name: _grown(part, added, 0) for name, part in opened.before.items()},
    )
