"""`AgentsNow`: what the agents of all slots were shown, did and got last."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import create_empty_array

from trainables.core.data.episode_base import row_of
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.sampling.agents.group_arrays import write_rows
from trainables.runtime.sampling.module_slots import of_slots


class AgentsNow:
    """Answers for the episodes that run in slots, without a copy until one is asked for.

    Args:
        groups: The groups of agents.
        num_slots: Slots of the environment, N.
        policy_map: The policies that act, by id.
        is_evaluation: Whether this is an evaluation.

    Attributes:
        returns: Sums of the rewards of the present episodes, `[R]` for each group.
        lengths: Environment steps of the episodes, `[N]`.
    """

    def __init__(
        self,
        groups: Sequence[AgentGroup],
        num_slots: int,
        policy_map: Mapping[str, Any],
        is_evaluation: bool,
    ):
        self._groups, self._num_slots = groups, num_slots
        self.policy_map, self.is_evaluation = policy_map, is_evaluation
        self._places = {
            agent: (number, index, len(group.agents))
            for number, group in enumerate(groups)
            for index, agent in enumerate(group.agents)
        }
        self._sizes = [num_slots * len(group.agents) for group in groups]
        self._step: AgentsStep | None = None
        self._actions: list[Any] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget what all episodes came to."""
        self.returns = [np.zeros(size) for size in self._sizes]
        self.lengths = np.zeros(self._num_slots, np.int64)
        self._acted = [np.zeros(size, np.bool_) for size in self._sizes]
        self._infos: list[dict[Hashable, Any]] = [{} for _ in range(self._num_slots)]

    def forget(self, slot: int) -> None:
        """Forget what a slot's episode came to."""
        self.lengths[slot] = 0
        self._infos[slot] = {}
        for column in (*self.returns, *self._acted):
            column.reshape(self._num_slots, -1)[slot] = 0

    # ------------------------------------------------------------------ what happens

    def keep_actions(self) -> None:
        """Keep the last action of each agent from here on."""
        self._actions = [
            create_empty_array(group.action_space, size, np.zeros)
            for group, size in zip(self._groups, self._sizes, strict=True)
        ]

    def act(self, actions: Sequence[Any]) -> None:
        """Keep the actions that agents are about to make, a batch `[R, …]` for each group."""
        assert self._actions is not None and self._step is not None
        groups = zip(self._actions, actions, self._acted, self._step.groups, strict=True)
        for kept, given, acted, shown in groups:
            rows = np.flatnonzero(shown.acts)
            write_rows(kept, rows, of_slots(given, rows))
            acted[rows] = True

    def show(self, step: AgentsStep) -> None:
        """Take note of what a step, or a reset, has shown; nothing of it is copied."""
        self._step = step
        if any(step.infos):
            for kept, told in zip(self._infos, step.infos, strict=True):
                kept.update(told)

    # ------------------------------------------------------------------ by slot and agent

    def length(self, slot: int) -> int:
        """Return the environment steps of a slot's episode."""
        return int(self.lengths[slot])

    def total(self, slot: int, agent: Hashable) -> float:
        """Return the sum of an agent's rewards."""
        group, row = self._row(slot, agent)
        return float(self.returns[group][row])

    def observation(self, slot: int, agent: Hashable) -> Any:
        """Return a copy of what an agent was shown last."""
        group, row = self._row(slot, agent)
        return row_of(self._last.groups[group].obs, row)

    def action(self, slot: int, agent: Hashable) -> Any:
        """Return a copy of an agent's last action; None if it has not acted.

        Raises:
            AttributeError: if actions are not kept.
        """
        if self._actions is None:
            raise AttributeError("episode.last_action_for() is only known to hooks of callbacks")
        group, row = self._row(slot, agent)
        return row_of(self._actions[group], row) if self._acted[group][row] else None

    def reward(self, slot: int, agent: Hashable) -> float:
        """Return what an agent got in the last step."""
        group, row = self._row(slot, agent)
        return float(self._last.groups[group].rewards[row]) if self.lengths[slot] else 0.0

    def info(self, slot: int, agent: Hashable) -> Any:
        """Return the last info of an agent in this episode; {} if there is none."""
        return self._infos[slot].get(agent, {})

    def ends(self, slot: int) -> tuple[bool, bool]:
        """Return whether a slot's episode has just been terminated, and whether it was truncated.

        It may be both, if its last agents ended in different ways.
        """
        if self._step is None or not self._step.is_over[slot]:
            return False, False
        rows = self._step.groups
        terminated, truncated = (
            any(column.reshape(self._num_slots, -1)[slot].any() for column in columns)
            for columns in ([r.terminated for r in rows], [r.truncated for r in rows])
        )
        return terminated or not truncated, truncated

    @property
    def _last(self) -> AgentsStep:
        assert self._step is not None
        return self._step

    def _row(self, slot: int, agent: Hashable) -> tuple[int, int]:
        """Return an agent's group, and its row there."""
        group, index, size = self._places[agent]
        return group, slot * size + index
