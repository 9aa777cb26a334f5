"""`DictSlots`: several environments with several agents, stepped one after another or side by side.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import create_empty_array

from trainables.core.data.stored import like
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.agent_groups import check_alike
from trainables.runtime.envs.multi_agent.agents_slot import AgentsSlot, SlotStart
from trainables.runtime.envs.multi_agent.forms import (
    COMMON,
    GLOBAL_STATE,
    AgentsResult,
    MultiAgentApiError,
)
from trainables.runtime.envs.multi_agent.remote_slot import RemoteAgentsSlot, RemoteMaker
from trainables.runtime.envs.multi_agent.slot_agents import SlotAgents
from trainables.runtime.envs.multi_agent.space_rows import arrays_of, row_reader, row_writer
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
    GroupRows,
)

_FLAGS = ("terminated", "truncated", "acts", "begins")


class DictSlots(AgentsVectorEnv):
    """Slots of a `MultiAgentEnv`: its dicts become rows of arrays.

    Args:
        makers: Make the environment of each slot, `[N]`: called once, and again where it is
            replaced. All must make environments with the same agents and spaces. That of a
            `RemoteMaker` is in a process of its own: such slots make their steps side by side, and
            all are waited for, so that rows are those of slots in this process.
        restart: Whether to replace an environment that raises in `step` or `reset`, or gives a
            reward that is no finite number, by a fresh one: the setting
            `restart_failed_sub_environments`.
        finite: Whether observations must be finite numbers, too, where it is replaced.
        names: What errors call each slot, `[N]`; None: by class and number.

    Attributes:
        envs: The present environments, `[N]`; those in other processes cannot be had.

    Raises:
        ConfigError: if an environment does not say what agents and spaces it has, or says another
            thing than the first, or a space is not supported.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], Any] | RemoteMaker],
        *,
        restart: bool = False,
        finite: bool = True,
        names: Sequence[str] | None = None,
    ):
        if not makers:
            raise ConfigError("an environment needs one slot or more")
        self.num_envs = len(makers)
        self._slots: list[AgentsSlot | RemoteAgentsSlot] = []
        try:
            for index, make in enumerate(makers):
                name = f"slot {index}" if names is None else names[index]
                if isinstance(make, RemoteMaker):
                    self._slots.append(RemoteAgentsSlot(make, name, restart, finite))
                    continue
                slot = AgentsSlot(make, name, restart, finite)
                self._slots.append(slot)
                if names is None:
                    slot.name = f"env {type(slot.env).__name__!r}, {name}"
            for any_slot in self._slots:  # the processes of remote ones all start before
                check_alike(any_slot.groups, self._slots[0].groups, any_slot.name)
        except BaseException:
            self.close()
            raise
        self.groups = self._slots[0].groups
        self._rows = [_empty_rows(group, self.num_envs) for group in self.groups]
        pairs = list(zip(self.groups, self._rows, strict=True))
        writers = [row_writer(group.observation_space, rows.obs) for group, rows in pairs]
        self._agents = [
            SlotAgents(index, self.groups, self._rows, writers) for index in range(self.num_envs)
        ]
        self._is_over = np.zeros(self.num_envs, np.bool_)
        self.state_space = self._slots[0].state_space
        self._infos: list[dict[Hashable, Any]] = []

    @property
    def envs(self) -> list[Any]:
        """The present environments, `[N]`."""
        return [slot.env for slot in self._slots]

    @property
    def num_restarts(self) -> int:  # type: ignore[override]  # a sum over the slots
        """How many environments were replaced."""
        return sum(slot.num_restarts for slot in self._slots)

    def reset(self, seed: list[int] | None = None) -> AgentsStep:
        self._clear()
        self._is_over[:] = False
        step = self._empty_step()
        seeds = [None] * self.num_envs if seed is None else seed
        asked = [slot.ask_reset(own) for slot, own in zip(self._slots, seeds, strict=True)]
        for index, answer in enumerate(asked):
            self._begin(index, answer(), step)
        self._infos = step.infos
        return step

    def step(self, actions: list[Any]) -> AgentsStep:
        """Step every slot, or reset it; see `AgentsVectorEnv`.

        Raises:
            SubEnvironmentError: naming the slot whose environment failed, or does not keep to the
                API of `MultiAgentEnv`, and the step.
        """
        self._clear()
        step = self._empty_step()
        readers = [
            row_reader(group.action_space, batch)
            for group, batch in zip(self.groups, actions, strict=True)
        ]
        asked = [
            slot.ask_reset() if is_over else slot.ask_step(agents.actions(readers))
            for slot, agents, is_over in zip(self._slots, self._agents, self._is_over, strict=True)
        ]
        for index, answer in enumerate(asked):
            result = answer()
            if isinstance(result, SlotStart):
                self._begin(index, result, step)
            else:
                self._advance(index, result, step)
        self._is_over[:] = step.is_over
        self._infos = step.infos
        return step

    def states(self) -> np.ndarray:
        return np.stack([infos[COMMON][GLOBAL_STATE] for infos in self._infos])

    def close(self) -> None:
        for slot in self._slots:
            slot.close()

    def _advance(self, index: int, result: AgentsResult, step: AgentsStep) -> None:
        try:
            step.is_over[index] = self._agents[index].advance(result)
        except MultiAgentApiError as error:
            raise self._slots[index].fault(str(error)) from error.__cause__
        step.infos.append(result.infos)

    def _begin(self, index: int, start: SlotStart, step: AgentsStep) -> None:
        try:
            self._agents[index].begin(start.obs, start.infos)
        except MultiAgentApiError as error:
            raise self._slots[index].fault(str(error)) from error.__cause__
        step.resets[index], step.replaced[index] = True, start.replaced
        step.infos.append(start.infos)

    def _clear(self) -> None:
        """Set all that holds for one step to 0; observations stay."""
        for rows in self._rows:
            rows.rewards[:] = 0
            for name in _FLAGS:
                getattr(rows, name)[:] = False

    def _empty_step(self) -> AgentsStep:
        flags = np.zeros((3, self.num_envs), np.bool_)
        infos: list[dict[Hashable, Any]] = []
        return AgentsStep(list(self._rows), flags[0], flags[1], flags[2], infos)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any] | None:
        slots = [slot.get_state() for slot in self._slots]
        if any(slot is None for slot in slots):
            return None
        return {
            "slots": slots,
            "agents": [agents.get_state() for agents in self._agents],
            "is_over": self._is_over.copy(),
            "rows": [[array.copy() for array in arrays] for arrays in self._all_arrays()],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        for slot, its in zip(self._slots, state["slots"], strict=True):
            slot.set_state(its)
        for agents, its in zip(self._agents, state["agents"], strict=True):
            agents.set_state(its)
        self._is_over[:] = like(self._is_over, state["is_over"], "is_over")
        for arrays, stored in zip(self._all_arrays(), state["rows"], strict=True):
            for own, given in zip(arrays, stored, strict=True):
                own[...] = like(own, given, "a row of agents")

    def _all_arrays(self) -> list[list[np.ndarray]]:
        """Return what each group's rows consist of."""
        pairs = zip(self.groups, self._rows, strict=True)
        return [
            [
                *arrays_of(group.observation_space, rows.obs),
                rows.rewards,
                *(getattr(rows, name) for name in _FLAGS),
            ]
            for group, rows in pairs
        ]


def _empty_rows(group: AgentGroup, num_envs: int) -> GroupRows:
    count = num_envs * len(group.agents)
    flags = (np.zeros(count, np.bool_) for _ in _FLAGS)
    obs = create_empty_array(group.observation_space, count)
    return GroupRows(obs, np.zeros(count, np.float64), *flags)
