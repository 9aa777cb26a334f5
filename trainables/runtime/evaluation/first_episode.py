"""`FirstEpisode`: keeps the first steps of the first episode that is played."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainables.core.policy.policy import Policy
from trainables.runtime.evaluation.watch import PlayedStep, Watch
from trainables.runtime.offline.actions import StoredActions
from trainables.runtime.offline.episode import DataSpaces


class FirstEpisode(Watch):
    """What was seen, done and earned in slot 0, until its episode ends.

    Args:
        policy: Who plays; its distribution says how actions are kept.
        num_steps: How many steps are kept at most.

    Attributes:
        policy: As given.
        is_whole: Whether the episode, or so many steps of it, were played.
        terminated: Whether the last of them led to a terminal state.
    """

    wants_steps = True

    def __init__(self, policy: Policy, num_steps: int):
        spaces = DataSpaces(policy.observation_space, policy.action_space)
        self._obs_layout, self._action_layout = spaces.obs_layout, spaces.action_layout
        self.policy = policy
        self._stored, self._num_steps = StoredActions(policy), num_steps
        self._obs: list[np.ndarray] = []
        self._actions: list[np.ndarray] = []
        self._rewards: list[float] = []
        self._num_begun = 0
        self.is_whole = self.terminated = False

    def begin(self, seeds: Sequence[int], share: bool) -> None:
        self._num_begun += 1

    def step(self, step: PlayedStep) -> None:
        if self.is_whole or self._num_begun > 1 or not step.counts[0]:
            return
        self._obs.append(self._obs_layout.rows(step.obs)[0])
        self._actions.append(self._stored(self._action_layout.rows(step.actions)[:1])[0])
        self._rewards.append(float(step.rewards[0]))
        ends = bool(step.terminated[0] or step.truncated[0])
        if ends or len(self._rewards) == self._num_steps:
            self._obs.append(self._obs_layout.rows(step.next_obs)[0].copy())
            self.terminated, self.is_whole = bool(step.terminated[0]), True

    @property
    def obs(self) -> np.ndarray:
        """Observations in rows of the space's layout, the last one included, `[T, *shape]`."""
        return np.stack(self._obs)

    @property
    def actions(self) -> np.ndarray:
        """Actions as the policy's distribution stores them, `[T-1, …]`."""
        return np.stack(self._actions)

    @property
    def rewards(self) -> np.ndarray:
        """Rewards of the actions, `[T-1]`."""
        return np.array(self._rewards, np.float32)
