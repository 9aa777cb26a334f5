"""The rows of a data set as a policy learns from them: made when they are drawn, never kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import state_arrays
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.actions import StoredActions
from trainables.runtime.offline.data_set import DataSet
from trainables.runtime.replay.rows import Rows

RewardBound = bool | float | list[float]
"""The setting `clip_rewards` as it is resolved: False, True (the sign), c, or [low, high]."""

_NAMES = ("actions", "rewards", "terminated", "truncated", "valid", "is_first")


class DataRows(Rows):
    """Rows of a data set, as a replay buffer would have them that its episodes were added to.

    Args:
        data: The data set.
        policy: Who learns from it: actions become what its distribution stores, and observations
            have beside them what it stores there.
        reward_bound: What is learned from of a reward.

    Raises:
        ConfigError: if the policy's spaces are not the data's.
    """

    def __init__(self, data: DataSet, policy: Policy, reward_bound: RewardBound = False):
        self.columns = {name: data.columns[name] for name in _NAMES}
        self.extra = ()
        self.num_slots, self.num_frames = 1, policy.observations.num_frames
        self.num_rows = self.num_positions = data.num_rows
        self._filled = np.array([data.num_rows])
        self.num_steps = data.num_steps
        self._stored, self._bound = StoredActions(policy), reward_bound
        self.obs = DataObservations(data, policy, self._actions)
        self.states = ZeroStates(policy) if policy.is_recurrent else None
        self._valid = data.columns["valid"]
        self._runs_on = data.next_valid  # an episode's last row is followed by one that is not
        self._ended_before = np.zeros(1, bool)
        self._steps_before = data.steps_before

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        if name == "actions":
            return self._actions(rows)
        values = super().read(name, rows)
        return bounded(values, self._bound) if name == "rewards" else values

    def _actions(self, rows: np.ndarray) -> np.ndarray:
        """Return stored actions of rows `[...]`; zeros where nobody acted, as a buffer has them."""
        recorded, valid = self.columns["actions"].take(rows, axis=0), self._valid.take(rows)
        if self._stored.are_recorded or valid.all():
            return self._stored(recorded)
        known = self._stored(recorded[valid])
        stored = np.zeros((*rows.shape, *known.shape[1:]), known.dtype)
        stored[valid] = known
        return stored

    def numbered(self, numbers: np.ndarray) -> np.ndarray:
        """Return those of the valid rows, in their order, that have these numbers `[M]`."""
        # Each episode has one row more than steps.
        return numbers + np.searchsorted(self._steps_before, numbers, side="right") - 1


class DataObservations:
    """Observations of a data set as a policy stores them, with what it stores beside them."""

    def __init__(self, data: DataSet, policy: Policy, actions: Callable[[np.ndarray], np.ndarray]):
        observations = policy.observations
        self._rows, self._layout = data.columns["obs"], observations.layout
        self._recorded: ObservationLayout = data.spaces.obs_layout
        plain = ObservationLayout(policy.observation_space)
        if (plain.dtype, plain.shape) != (self._recorded.dtype, self._recorded.shape):
            raise ConfigError(
                f"observations of {data.name} are {self._recorded.dtype} {self._recorded.shape}, "
                f"the policy's {plain.dtype} {plain.shape}; allowed: data that are read as the "
                "policy's observation_space"
            )
        self._observations, self._actions = observations, actions
        self._columns = data.columns

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return a new array of the rows `ids [...]`: `[..., *shape]` in the policy's layout."""
        recorded = self._rows.take(ids, axis=0)
        if not self._layout.has_extras:
            return recorded
        rows = self._layout.empty(ids.shape)
        for path, leaf in self._recorded.leaves(recorded).items():
            rows[path][...] = leaf
        for name, extra in self._extras(ids.reshape(-1)).items():
            rows[name][...] = extra.reshape(*ids.shape, -1)
        return rows

    def _extras(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Return the action and reward that led to rows `[M]`; zeros where an episode begins."""
        before = np.maximum(ids - 1, 0)
        columns = self._columns
        stored = torch.from_numpy(self._actions(before))
        rewards, is_first = columns["rewards"].take(before), columns["is_first"].take(ids)
        return self._observations.extras(stored, rewards, is_first) or {}


class ZeroStates:
    """What a policy with a memory remembers of what nobody recorded: nothing."""

    stride = 1

    def __init__(self, policy: Policy):
        fields = state_arrays(policy.module.initial_state(1))
        self._fields = {name: (part.shape[1:], part.dtype) for name, part in fields.items()}

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the states before rows `[B]`, `[B, …]`."""
        return {
            name: np.zeros((len(rows), *shape), dtype)
            for name, (shape, dtype) in self._fields.items()
        }


def bounded(rewards: np.ndarray, bound: RewardBound) -> np.ndarray:
    """Return rewards as `clip_rewards` has them learned from."""
    if bound is False:
        return rewards
    if bound is True:
        return np.sign(rewards)
    low, high = bound if isinstance(bound, list) else (-bound, bound)
    return np.clip(rewards, np.float32(low), np.float32(high))
