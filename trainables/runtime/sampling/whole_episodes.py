"""`WholeEpisodes`: holds what is sampled back until its episodes are over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from trainables.core.data.batch import BY_ROW, Rollout
from trainables.core.data.layout import ObservationLayout

# The version of the weights, too, while rollouts are held.
_BY_ROW = (*BY_ROW, "weights_version")


class WholeEpisodes:
    """Joins fragments of an env runner and gives out the episodes in them that are over.

    Slots are stepped on without a pause: what is held of a running episode comes with a later
    rollout, once it has ended. So every step comes once, in the order of its slot, and none is
    thrown away. An environment that was replaced ends its episode, which is bootstrapped.

    Args:
        num_slots: Columns N of every fragment.
        layout: How observations are stored.
        state_stride: Rows from one recurrent state to the next in what is given out, 0 without a
            memory. Fragments of a policy with one have the state before every row.
        max_steps: Environment steps of all slots that an episode may take.
        env_name: The name of the environment, for messages.
    """

    def __init__(
        self,
        num_slots: int,
        layout: ObservationLayout,
        state_stride: int,
        max_steps: int,
        env_name: str,
    ):
        self._num_slots, self._layout, self._stride = num_slots, layout, state_stride
        self._max_steps, self._env_name = max_steps, env_name
        self.clear()

    def clear(self) -> None:
        """Forget what is held."""
        self._held: list[Rollout] = []  # one after the other in time
        self._num_rows = 0
        self._cuts = np.zeros(self._num_slots, np.int64)  # rows of each slot before its running one
        self._whole = np.zeros(self._num_slots, np.int64)  # steps in episodes that are over
        self._running = np.zeros(self._num_slots, np.int64)  # steps of the running episodes

    def is_enough(self, num_steps: int) -> bool:
        """Tell whether so many steps are in episodes that are over, and every slot has one."""
        return bool(self._whole.sum() >= num_steps and self._whole.all())

    def add(self, fragment: Rollout) -> None:
        """Append a fragment `[T, N]`.

        Raises:
            RuntimeError: if an episode does not end, naming the environment.
        """
        valid, length = fragment.valid, len(fragment.valid)
        row = np.arange(length)[:, None]
        done = fragment.terminated | fragment.truncated
        # An episode is over after its last step, and before a row that only resets.
        over = np.where(done, row + 1, np.where(valid, -1, row)).max(0)
        has_ended = over >= 0
        before_end = (valid & (row < over)).sum(0)
        self._whole += np.where(has_ended, self._running + before_end, 0)
        self._running = valid.sum(0) - before_end + np.where(has_ended, 0, self._running)
        self._cuts = np.where(has_ended, self._num_rows + over, self._cuts)
        self._num_rows += length
        version = np.broadcast_to(fragment.weights_version, valid.shape)  # by row from here on
        self._held.append(replace(fragment, weights_version=version))
        longest = int(self._running.max())
        if longest * self._num_slots >= self._max_steps:
            raise RuntimeError(
                f"env {self._env_name!r}: an episode has not ended in {longest} steps, and "
                "batch_mode = 'complete_episodes' waits for its end; give it a time limit "
                "(env_config: max_episode_steps), or raise max_env_steps_without_episode, which "
                f"is {self._max_steps} over {self._num_slots} slots"
            )

    def take(self) -> Rollout:
        """Return the episodes that are over, a column for each slot; what runs stays."""
        held = self._joined()
        columns = [self._column(held, slot) for slot in range(self._num_slots)]
        first, self._cuts = int(self._cuts.min()), self._cuts - self._cuts.min()
        rest = self._rows(held, first, self._num_rows)
        self._num_rows -= first
        # Of slots whose running episode began later, rows before it have been given out.
        given = np.arange(self._num_rows)[:, None] < self._cuts
        self._held = [replace(rest, valid=rest.valid & ~given)] if self._num_rows else []
        self._whole = np.zeros_like(self._whole)
        return Rollout.concatenate(columns)

    def _column(self, held: Rollout, slot: int) -> Rollout:
        """Return a slot's episodes that are over, from the first step to the last, `[T, 1]`."""
        steps = held.valid[: self._cuts[slot], slot].nonzero()[0]
        one = slice(slot, slot + 1)
        columns = {name: getattr(held, name)[:, one] for name in ("obs", *_BY_ROW)}
        states = None
        if held.states is not None:
            states = {name: part[:, one] for name, part in held.states.items()}
        column = replace(held, **columns, states=states, follows=np.zeros(1, bool))
        column = self._rows(column, int(steps[0]), int(steps[-1]) + 1)
        continues = column.valid & ~(column.terminated | column.truncated)
        continues[:-1] &= column.valid[1:]
        continues[-1] = False
        stride = self._stride or len(continues)
        if self._stride:
            states = _of_all(column.states, lambda part: part[::stride])
        else:  # the frames before an episode's first one
            states = _of_all(column.states, lambda part: np.zeros_like(part[:1]))
        oldest = column.weights_version[0]
        return replace(
            column,
            continues=continues,
            weights_version=oldest,
            states=states,
            state_stride=stride if states else 0,
        )

    def _joined(self) -> Rollout:
        """Return all that is held as one."""
        first, last = self._held[0], self._held[-1]
        if first is last:
            return first
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in self._held]) for name in _BY_ROW
        }
        columns["obs"] = np.concatenate([*(part.obs[:-1] for part in self._held), last.obs[-1:]])
        if self._stride:
            parts = [part.states or {} for part in self._held]
            columns["states"] = {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
        return replace(first, **columns)

    def _rows(self, rollout: Rollout, first: int, last: int) -> Rollout:
        """Return the rows from `first` to before `last`."""
        columns: dict[str, Any] = {name: getattr(rollout, name)[first:last] for name in _BY_ROW}
        if self._stride:
            columns["states"] = _of_all(rollout.states, lambda part: part[first:last])
        return replace(rollout, **columns, obs=rollout.obs[first : last + 1])

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what is held."""
        return {
            "held": self._joined().to_state(self._layout) if self._held else None,
            "cuts": self._cuts.copy(),
            "whole": self._whole.copy(),
            "running": self._running.copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self.clear()
        if state["held"] is not None:
            self._held = [Rollout.from_state(state["held"], self._layout)]
            self._num_rows = len(self._held[0].rewards)
        self._cuts, self._whole = np.array(state["cuts"]), np.array(state["whole"])
        self._running = np.array(state["running"])


def _of_all(
    states: dict[str, np.ndarray] | None, function: Callable[[np.ndarray], np.ndarray]
) -> dict[str, np.ndarray] | None:
    return None if states is None else {name: function(part) for name, part in states.items()}
