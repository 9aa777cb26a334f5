"""The two-step game: what a sum of the agents' values cannot represent (Rashid et al., 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.runtime.envs.multi_agent.native.game import NativeGame, Outcome, agent_names
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

START, GAME_A, GAME_B = range(3)

# What the team is paid in the second step, by the actions of agent 0 (rows) and of agent 1.
PAYOFFS = np.array([[[0.0, 0.0], [0.0, 0.0]], [[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])


class TwoStepGame(NativeGame):
    """Two agents, two actions, two steps (Rashid et al., 2018, arXiv 1803.11485, section 5).

    In the first step agent 0 chooses which matrix game both play in the second: 2A, which pays 7
    whatever they do, or 2B, which pays `[[0, 1], [1, 8]]`. The team's pay is shared equally, so
    that the sum over both is 7 or 8 at best. Everybody observes the state, one-hot: the start, 2A
    or 2B; it is the global state, too. Terminated after the second step, whose observation is that
    of the game played.

    Args:
        num_envs: Number of slots.
    """

    def __init__(self, num_envs: int):
        seen = spaces.Box(0, 1, (len(PAYOFFS),), np.float32)
        group = AgentGroup(agent_names("agent", 2), seen, spaces.Discrete(2))
        super().__init__(num_envs, (group,), ("at",))
        self.state_space = seen
        self.at = np.full(num_envs, START, np.int64)  # the state of each slot, `[N]`

    def states(self) -> np.ndarray:
        return np.eye(len(PAYOFFS), dtype=np.float32)[self.at]

    def _begin(self, slots: np.ndarray) -> None:
        self.at[slots] = START

    def _advance(self, actions: list[np.ndarray], playing: np.ndarray) -> Outcome:
        first, second = np.where(playing, actions[0], 0).T
        is_over = self.at != START
        rewards = PAYOFFS[self.at, first, second] / 2
        self.at = np.where(is_over, self.at, np.where(first == 0, GAME_A, GAME_B))
        return Outcome(rewards[:, None], is_over[:, None], np.zeros_like(is_over)[:, None])

    def _observe(self) -> list[Any]:
        return [np.repeat(self.states(), 2, axis=0)]
