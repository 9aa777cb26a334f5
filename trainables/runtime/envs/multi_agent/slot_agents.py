"""The agents of one slot: what an environment says of them, into the rows of their groups.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.runtime.envs.multi_agent.forms import (
    ALL,
    COMMON,
    AgentsResult,
    MultiAgentApiError,
    is_set,
)
from trainables.runtime.envs.multi_agent.space_rows import Read, RowError, Write
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, GroupRows

logger = logging.getLogger("trainables")

# How many steps in a row nobody may be asked to act, before that is taken for an error.
MAX_WAITS = 1000
# How many episodes of a slot an agent may stay away from, before a warning says so.
MAX_ABSENCES = 100


@dataclass(slots=True)
class _Seat:
    """An agent of the slot, and where its row is.

    Attributes:
        agent: Its id.
        group: The index of its group.
        row: Its row in the group's arrays.
        has_begun: Whether it was observed in this episode.
        has_ended: Whether it ended in this episode.
        acts: Whether it acts in the next step.
    """

    agent: Hashable
    group: int
    row: int
    has_begun: bool = False
    has_ended: bool = False
    acts: bool = False


class SlotAgents:
    """Who of a slot's agents has begun, acts and has ended, and their rows.

    Rewards and flags of the rows are set to 0 before each step by who owns the arrays.

    Args:
        slot: The index of the slot.
        groups: All agents by equal spaces.
        rows: The rows of each group, of all slots; to be written.
        writers: Write an observation into a row of each group.
    """

    def __init__(
        self,
        slot: int,
        groups: Sequence[AgentGroup],
        rows: Sequence[GroupRows],
        writers: Sequence[Write],
    ):
        self._rows, self._writers = rows, writers
        self._seats = {
            agent: _Seat(agent, index, slot * len(group.agents) + place)
            for index, group in enumerate(groups)
            for place, agent in enumerate(group.agents)
        }
        self._waits = 0
        self._slot, self._num_episodes = slot, 0
        self._unseen = {*self._seats}  # agents that have begun no episode yet

    def actions(self, readers: Sequence[Read]) -> dict[Hashable, Any]:
        """Return the actions of the agents that were asked to act.

        Args:
            readers: Read an action out of a row of each group.
        """
        return {
            seat.agent: readers[seat.group](seat.row) for seat in self._seats.values() if seat.acts
        }

    def begin(self, obs: dict[Hashable, Any], infos: dict[Hashable, Any]) -> None:
        """Begin an episode with its first observations.

        Raises:
            MultiAgentApiError: if they do not keep to the API.
        """
        for seat in self._seats.values():
            seat.has_begun = seat.has_ended = seat.acts = False
        self._waits = 0
        self._tell_unseen()
        self._show(obs)
        self._check_infos(infos)

    def advance(self, step: AgentsResult) -> bool:
        """Take in what a step gave; return whether the episode is over.

        Raises:
            MultiAgentApiError: if it does not keep to the API.
        """
        for seat in self._seats.values():
            seat.acts = False
        self._reward(step.rewards)
        self._show(step.obs)
        self._end_single(step)
        self._check_infos(step.infos)
        all_terminated = is_set(step.terminateds[ALL], "terminateds", ALL)
        if all_terminated or is_set(step.truncateds[ALL], "truncateds", ALL):
            for seat in self._seats.values():
                if not seat.has_ended:
                    self._end(seat, all_terminated, not all_terminated)
            return True
        return self._is_over()

    def _show(self, obs: dict[Hashable, Any]) -> None:
        seats, all_rows, writers = self._known(obs, "an observation"), self._rows, self._writers
        for agent, value in obs.items():
            seat = seats[agent]
            if seat.has_ended:
                raise MultiAgentApiError(
                    f"agent {agent!r} is observed, but ended in an earlier step; an agent that has "
                    "ended is observed in the next episode again"
                )
            try:
                writers[seat.group](seat.row, value)
            except RowError as error:
                raise MultiAgentApiError(f"the observation of agent {agent!r}{error}") from error
            rows = all_rows[seat.group]
            rows.acts[seat.row] = seat.acts = True
            if not seat.has_begun:
                rows.begins[seat.row] = seat.has_begun = True
                self._unseen.discard(agent)

    def _tell_unseen(self) -> None:
        """Warn of agents that never act: all slots are alike, so the first one says it, once.

        It is no error: those that take part may be few of many.
        """
        if self._num_episodes == MAX_ABSENCES and self._unseen and self._slot == 0:
            unseen = [agent for agent in self._seats if agent in self._unseen]
            logger.warning(
                "possible_agents has %s, whom no step has observed in %d episodes of slot 0: they "
                "never act, and nothing is learned from them",
                unseen,
                MAX_ABSENCES,
            )
        self._num_episodes += 1

    def _reward(self, rewards: dict[Hashable, Any]) -> None:
        seats = self._known(rewards, "a reward")
        for agent, reward in rewards.items():
            seat = seats[agent]
            if seat.has_ended:
                if reward != 0:
                    raise MultiAgentApiError(
                        f"agent {agent!r} gets the reward {reward}, but ended in an earlier step; "
                        "allowed: none, or 0"
                    )
                continue
            self._rows[seat.group].rewards[seat.row] = reward

    def _end_single(self, step: AgentsResult) -> None:
        """End agents whose own flags say so. Flags of those that have ended do not matter."""
        ending: dict[Hashable, list[bool]] = {}
        flags_by_name = (("terminateds", step.terminateds), ("truncateds", step.truncateds))
        for index, (name, flags) in enumerate(flags_by_name):
            seats = self._known(flags, f"an entry in {name}", ALL)
            for agent, flag in flags.items():
                if flag is False or agent == ALL or not is_set(flag, name, agent):
                    continue
                if not seats[agent].has_ended:
                    ending.setdefault(agent, [False, False])[index] = True
        for agent, (terminated, truncated) in ending.items():
            self._end(self._seats[agent], terminated, truncated)

    def _end(self, seat: _Seat, terminated: bool, truncated: bool) -> None:
        rows, row = self._rows[seat.group], seat.row
        if seat.has_begun and not rows.begins[row]:  # else it never acted: it takes no part
            rows.terminated[row], rows.truncated[row] = terminated, truncated
        rows.acts[row] = rows.begins[row] = seat.acts = False
        seat.has_ended = True

    def _is_over(self) -> bool:
        """Tell whether all have ended that began, and nobody is asked to act.

        Raises:
            MultiAgentApiError: if nobody was asked for too long.
        """
        if any(seat.acts for seat in self._seats.values()):
            self._waits = 0
            return False
        if all(seat.has_ended for seat in self._seats.values() if seat.has_begun):
            return True
        self._waits += 1
        if self._waits >= MAX_WAITS:
            waiting = [s.agent for s in self._seats.values() if s.has_begun and not s.has_ended]
            raise MultiAgentApiError(
                f"no agent was asked to act in {MAX_WAITS} steps in a row, and {waiting} have not "
                "ended; a step must observe who acts next, or end the episode"
            )
        return False

    def _check_infos(self, infos: dict[Hashable, Any]) -> None:
        self._known(infos, "an info", COMMON)

    def _known(
        self, values: dict[Hashable, Any], what: str, more: str | None = None
    ) -> dict[Hashable, _Seat]:
        """Return all seats by agent.

        Raises:
            MultiAgentApiError: if there are values of other agents, and not of `more`.
        """
        if values.keys() <= self._seats.keys():
            return self._seats
        for agent in values:
            if agent not in self._seats and agent != more:
                allowed = "" if more is None else f", and {more!r}"
                raise MultiAgentApiError(
                    f"{what} is of agent {agent!r}, which is unknown; the possible_agents are "
                    f"{list(self._seats)}{allowed}"
                )
        return self._seats

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return who has begun, has ended and acts, `[A, 3]`, and how long all have waited."""
        seats = [(s.has_begun, s.has_ended, s.acts) for s in self._seats.values()]
        return {"seats": np.array(seats, np.bool_), "waits": self._waits}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        for seat, flags in zip(self._seats.values(), state["seats"], strict=True):
            seat.has_begun, seat.has_ended, seat.acts = map(bool, flags)
            if seat.has_begun:
                self._unseen.discard(seat.agent)
        self._waits = int(state["waits"])
