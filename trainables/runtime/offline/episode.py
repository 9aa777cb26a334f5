"""`Episode`: what one agent saw and did, as files hold it, whatever their format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import gymnasium as gym
import numpy as np

from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError


class DataError(ConfigError):
    """Something is wrong with recorded data: the message names file, row, column and what may be.

    Rows count from 0 within their file.
    """


class DataSpaces(NamedTuple):
    """What was seen and done in recorded data, in the environment's terms."""

    observation: gym.Space
    action: gym.Space

    @property
    def obs_layout(self) -> ObservationLayout:
        """How `Episode.obs` has observations."""
        return ObservationLayout(self.observation)

    @property
    def action_layout(self) -> ObservationLayout:
        """How `Episode.actions` has actions: as observations of such a space would be."""
        return ObservationLayout(self.action)


@dataclass(frozen=True)
class Episode:
    """An episode of one agent, or consecutive rows of one.

    Attributes:
        obs: Raw observations as `DataSpaces.obs_layout` stores them, `[L+1, *shape]`; the last one
            is what the last action led to.
        actions: Actions as the environment took them, in rows of `DataSpaces.action_layout`,
            `[L, *shape]`.
        rewards: Of the actions, `[L]`, float32.
        terminated: Whether the last action led to a terminal state.
        truncated: Whether the episode was cut there, e.g. by a time limit. If neither is so the
            recording ends amid the episode.
        logp: Log-probability of each action under the policy that took it, `[L]`, float32; None if
            nobody noted it.
        episode_id: Tells episodes of one source apart; those of several agents that took part in
            the same one may share it.
        first_step: The number of the first row within its episode: 0 unless the beginning is
            missing.
        file: Where it was read from; empty if it was not read.
        row: The row of that file that it begins in.
        module_id: The module that acted; empty if nobody said.
        agent_id: The agent that acted; empty if nobody said.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    logp: np.ndarray | None = None
    episode_id: str = ""
    first_step: int = 0
    file: str = ""
    row: int = 0
    module_id: str = ""
    agent_id: str = ""

    def __len__(self) -> int:
        return len(self.rewards)

    def part(self, start: int, stop: int) -> Episode:
        """Return its rows from `start` until before `stop`, as views."""
        is_last = stop == len(self)
        return replace(
            self,
            obs=self.obs[start : stop + 1],
            actions=self.actions[start:stop],
            rewards=self.rewards[start:stop],
            terminated=self.terminated and is_last,
            truncated=self.truncated and is_last,
            logp=None if self.logp is None else self.logp[start:stop],
            first_step=self.first_step + start,
        )
