"""A small cooperative game: agents that see only what is near visit all goals of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.native.game import (
    NativeGame,
    Outcome,
    agent_names,
    checked_int,
)
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

_STEPS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))  # stay, up, down, left, right: (row, column)


class GridWorldAgents(NativeGame):
    """Agents cover the goals of a square grid with pillars on it.

    A pillar stands on each cell whose row and column are odd, counted from 0, so that every free
    cell can be reached. Agents and goals begin on distinct free cells, drawn for each episode;
    agents may meet on a cell. A goal is covered, once, by the first agents that step on it, which
    pays 1. All agents end together: terminated when every goal is covered, else truncated after
    `max_steps`.

    An agent observes `{"observation", "action_mask"}`: of each cell of a window around it, whether
    there is a wall, an open goal, another agent; then its own row and column, from 0 to 1. The mask
    allows the moves, of stay, up, down, left, right, that lead into no wall; an agent that makes
    another one stays.

    Args:
        num_envs: Number of slots.
        num_agents: Number of agents.
        num_goals: Number of goals; None: as many as agents.
        size: Cells on each side of the grid.
        view: How many cells an agent sees in each direction.
        shared_reward: Whether all agents share equally in what a goal pays; otherwise those do
            that cover it.
        max_steps: Steps after which an episode is cut off.
    """

    def __init__(
        self,
        num_envs: int,
        num_agents: int = 2,
        num_goals: int | None = None,
        size: int = 7,
        view: int = 2,
        shared_reward: bool = True,
        max_steps: int = 100,
    ):
        num_agents = checked_int("num_agents", num_agents, 1)
        num_goals = checked_int("num_goals", num_agents if num_goals is None else num_goals, 1)
        self._size, self._view = checked_int("size", size, 2, 100), checked_int("view", view, 0, 10)
        self._max_steps = checked_int("max_steps", max_steps, 1)
        if not isinstance(shared_reward, bool):
            raise ConfigError(f"env_config shared_reward={shared_reward!r}; allowed: true, false")
        self._shared = shared_reward
        self._lay_out()
        if num_agents + num_goals > len(self._free):
            raise ConfigError(
                f"env_config size={size}: {num_agents} agents and {num_goals} goals do not fit on "
                f"{len(self._free)} free cells"
            )
        observation = spaces.Box(0, 1, (3 * len(self._window) + 2,), np.float32)
        mask = spaces.Box(0, 1, (len(_STEPS),), np.int8)
        group = AgentGroup(
            agent_names("agent", num_agents),
            spaces.Dict({"observation": observation, "action_mask": mask}),
            spaces.Discrete(len(_STEPS)),
        )
        super().__init__(num_envs, (group,), ("cells", "goals", "is_open", "steps"))
        # Where agents, `[N, A]`, and goals, `[N, G]`, are: indices of cells.
        self.cells = np.full((num_envs, num_agents), self._free[0], np.int64)
        self.goals = np.full((num_envs, num_goals), self._free[0], np.int64)
        self.is_open = np.zeros((num_envs, num_goals), bool)
        self.steps = np.zeros(num_envs, np.int64)

    def _lay_out(self) -> None:
        """Number the cells row by row, those of a margin of walls with them.

        The margin is as wide as agents see, and a step at least, so that what they look at always
        has a number.
        """
        self._margin = max(self._view, 1)
        self._width = self._size + 2 * self._margin
        inside = np.ones((self._size, self._size), bool)
        inside[1::2, 1::2] = False
        self._is_wall = ~np.pad(inside, self._margin).ravel()
        self._free = np.flatnonzero(~self._is_wall)
        self._moves = np.array([row * self._width + column for row, column in _STEPS], np.int64)
        near = np.arange(-self._view, self._view + 1, dtype=np.int64)
        self._window = (near[:, None] * self._width + near).ravel()

    def _begin(self, slots: np.ndarray) -> None:
        order = self._streams.uniform(slots, len(self._free)).argsort(axis=1)
        num_agents, num_goals = self.cells.shape[1], self.goals.shape[1]
        places = self._free[order[:, : num_agents + num_goals]]
        self.cells[slots], self.goals[slots] = places[:, :num_agents], places[:, num_agents:]
        self.is_open[slots], self.steps[slots] = True, 0

    def _advance(self, actions: list[np.ndarray], playing: np.ndarray) -> Outcome:
        targets = self.cells + self._moves[np.where(playing, actions[0], 0)]
        self.cells = np.where(self._is_wall[targets], self.cells, targets)
        reached = (self.cells[:, :, None] == self.goals[:, None]) & self.is_open[:, None]
        arrivals = reached.sum(axis=1)  # [N, G]
        self.is_open &= arrivals == 0
        rewards = (reached / np.maximum(arrivals, 1)[:, None]).sum(axis=2)
        if self._shared:
            rewards = rewards.mean(axis=1, keepdims=True)
        self.steps += 1
        is_done = self.is_open.sum(axis=1) == 0
        is_late = ~is_done & (self.steps >= self._max_steps)
        return Outcome(rewards, is_done[:, None], is_late[:, None])

    def _observe(self) -> list[Any]:
        num_cells, slots = len(self._is_wall), np.arange(self.num_envs)[:, None]
        open_goals = np.zeros((self.num_envs, num_cells), bool)
        open_goals[slots, self.goals] = self.is_open
        everyone = np.bincount(
            (slots * num_cells + self.cells).ravel(), minlength=self.num_envs * num_cells
        ).reshape(self.num_envs, num_cells)
        seen = self.cells[:, :, None] + self._window  # [N, A, cells of the window]
        others = everyone[slots[:, :, None], seen]
        others[:, :, len(self._window) // 2] -= 1  # itself
        position = np.stack(np.divmod(self.cells, self._width), axis=2) - self._margin
        views = (
            self._is_wall[seen],
            open_goals[slots[:, :, None], seen],
            others > 0,
            position / (self._size - 1),
        )
        num_rows = self.cells.size
        observation = np.concatenate(views, axis=2, dtype=np.float32, casting="same_kind")
        mask = ~self._is_wall[self.cells[:, :, None] + self._moves]
        return [
            {
                "observation": observation.reshape(num_rows, -1),
                "action_mask": mask.astype(np.int8).reshape(num_rows, -1),
            }
        ]
