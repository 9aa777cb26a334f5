"""`AgentGrouping`: dicts of agents as dicts of groups of agents, and back.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Tuple

from trainables.core.data.spaces import leaves_of, tree_of_leaves
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.forms import ALL, COMMON, MultiAgentApiError, is_set

# In the info of a group: lists with an entry for each member.
GROUP_REWARDS = "_group_rewards"
GROUP_INFO = "_group_info"

AgentDict = Mapping[Hashable, Any]
SpaceOf = Callable[[Hashable], gym.Space]


class AgentGrouping:
    """Groups of agents, each as one agent, and who of them has ended in the present episode.

    The members of a group act together: all that have not ended are observed, or none is. For one
    that has ended the group sees what it saw last, and its part of the action is dropped. A group
    ends when all its members have: terminated if each was, and truncated if any was.

    Args:
        groups: The members of each group.
        agents: All agents. Those in no group are as they were.

    Attributes:
        agents: The ids of the groups, then of the agents that are in none.

    Raises:
        ConfigError: if a group has no member, an unknown one or one of another group, or is called
            as an agent that is in none.
    """

    def __init__(self, groups: Mapping[Hashable, list[Hashable]], agents: list[Hashable]):
        self._groups = {group: list(members) for group, members in groups.items()}
        self._all, self._group_of = list(agents), _groups_by_member(self._groups, agents)
        single = [agent for agent in agents if agent not in self._group_of]
        taken = [group for group in self._groups if group in single]
        if taken:
            raise ConfigError(f"groups: {taken[0]!r} is an agent that is in no group")
        self.agents: list[Hashable] = [*self._groups, *single]
        self.begin()

    def begin(self) -> None:
        """Begin an episode: nobody has ended."""
        self._terminated: set[Hashable] = set()
        self._truncated: set[Hashable] = set()
        self._shown: dict[Hashable, Any] = {}  # what members of groups saw last
        self._asked: set[Hashable] = set()
        self._is_over = False

    def spaces(self, space_of: SpaceOf, given: gym.Space | None) -> dict[Hashable, gym.Space]:
        """Return the space of each group, and of each agent in none.

        Args:
            space_of: Returns an agent's space.
            given: The space of each group; None: that of its members' spaces.

        Raises:
            ConfigError: if it is no Tuple with a part for each member.
        """
        found: dict[Hashable, gym.Space] = {}
        for agent in self.agents:
            if agent not in self._groups:
                found[agent] = space_of(agent)
                continue
            members = self._groups[agent]
            space = Tuple([space_of(member) for member in members]) if given is None else given
            if not (isinstance(space, Tuple) and len(space.spaces) == len(members)):
                raise ConfigError(
                    f"the space {space} does not fit group {agent!r}; allowed: a Tuple of "
                    f"{len(members)} spaces, one for each of {members}"
                )
            found[agent] = space
        return found

    def actions(self, actions: AgentDict) -> dict[Hashable, Any]:
        """Return the actions of agents, given those of groups."""
        found: dict[Hashable, Any] = {}
        for agent, action in actions.items():
            if agent not in self._groups:
                found[agent] = action
                continue
            parts = zip(self._groups[agent], action, strict=True)
            found.update((member, part) for member, part in parts if member in self._asked)
        return found

    def ends(self, terminateds: AgentDict, truncateds: AgentDict) -> tuple[Any, Any]:
        """Return `terminateds` and `truncateds` of groups; to be called before `observations`."""
        for name, flags, ended in (
            ("terminateds", terminateds, self._terminated),
            ("truncateds", truncateds, self._truncated),
        ):
            if is_set(flags[ALL], name, ALL):
                self._is_over = True
            ended.update(
                agent for agent, flag in flags.items() if agent != ALL and is_set(flag, name, agent)
            )
        ungrouped = (self._ungrouped(terminateds), self._ungrouped(truncateds))
        for group, members in self._groups.items():
            have_ended = all(self._has_ended(member) for member in members)
            ungrouped[0][group] = all(member in self._terminated for member in members)
            ungrouped[1][group] = have_ended and any(m in self._truncated for m in members)
        return ungrouped

    def observations(self, obs: AgentDict) -> dict[Hashable, Any]:
        """Return the observations of groups: tuples.

        Raises:
            MultiAgentApiError: if some members of a group are observed, and others, that have not
                ended, are not.
        """
        found = self._ungrouped(obs)
        self._asked = {agent for agent in obs if not self._has_ended(agent)}
        for group, members in self._groups.items():
            seen = [member for member in members if member in obs]
            if not seen:
                continue
            self._shown.update((member, obs[member]) for member in seen)
            for member in members:
                if member not in self._shown or (member not in obs and not self._has_ended(member)):
                    raise MultiAgentApiError(
                        f"of group {group!r}, {seen} are observed and agent {member!r} is not; "
                        "members of a group must be observed together, until they end"
                    )
            found[group] = tuple(self._shown[member] for member in members)
        return found

    def rewards(self, rewards: AgentDict) -> tuple[dict[Hashable, Any], dict[Hashable, list[Any]]]:
        """Return the sums of the rewards of groups, and the rewards of their members."""
        found, by_member = self._ungrouped(rewards), {}
        for group, members in self._groups.items():
            if any(member in rewards for member in members):
                by_member[group] = [rewards.get(member, 0.0) for member in members]
                found[group] = sum(by_member[group])
        return found, by_member

    def infos(
        self, infos: AgentDict, rewards: Mapping[Hashable, list[Any]] | None = None
    ) -> dict[Hashable, Any]:
        """Return the infos of groups: those of their members, and their rewards, in lists."""
        found = self._ungrouped(infos)
        for group, members in self._groups.items():
            if any(member in infos for member in members):
                found[group] = {GROUP_INFO: [infos.get(member, {}) for member in members]}
        for group, values in (rewards or {}).items():
            found.setdefault(group, {})[GROUP_REWARDS] = values
        return found

    def alive(self) -> list[Hashable]:
        """Return the groups, and the agents in none, that have not ended."""
        if self._is_over:
            return []
        members = ((agent, self._groups.get(agent, [agent])) for agent in self.agents)
        return [agent for agent, its in members if not all(map(self._has_ended, its))]

    def get_state(self, space_of: SpaceOf) -> dict[str, Any]:
        """Return who has ended, who acts next, and what members saw last.

        Args:
            space_of: Returns what an agent sees.
        """
        shown: list[Any] = [None] * len(self._all)
        for index, agent in enumerate(self._all):
            if agent in self._shown:
                leaves = leaves_of(space_of(agent), self._shown[agent])
                shown[index] = {path: np.array(leaf) for path, leaf in leaves.items()}
        sets = {"terminated": self._terminated, "truncated": self._truncated, "asked": self._asked}
        state: dict[str, Any] = {
            name: [agent in its for agent in self._all] for name, its in sets.items()
        }
        return {**state, "shown": shown, "is_over": self._is_over}

    def set_state(self, state: Mapping[str, Any], space_of: SpaceOf) -> None:
        """Take over `get_state`'s."""
        self._terminated, self._truncated, self._asked = (
            {agent for agent, is_in in zip(self._all, state[name], strict=True) if is_in}
            for name in ("terminated", "truncated", "asked")
        )
        self._shown = {
            agent: tree_of_leaves(space_of(agent), leaves)
            for agent, leaves in zip(self._all, state["shown"], strict=True)
            if leaves is not None
        }
        self._is_over = bool(state["is_over"])

    def _has_ended(self, agent: Hashable) -> bool:
        return agent in self._terminated or agent in self._truncated

    def _ungrouped(self, values: AgentDict) -> dict[Hashable, Any]:
        """Return the entries of agents in no group, and of what is no agent.

        Raises:
            MultiAgentApiError: if an entry would be taken for a group's.
        """
        for agent in values:
            if agent in self._groups and agent not in self._group_of and agent != COMMON:
                raise MultiAgentApiError(
                    f"{agent!r} is a group, no agent; the agents are {self._all}"
                )
        return {agent: v for agent, v in values.items() if agent not in self._group_of}


def _groups_by_member(
    groups: Mapping[Hashable, list[Hashable]], agents: list[Hashable]
) -> dict[Hashable, Hashable]:
    group_of: dict[Hashable, Hashable] = {}
    for group, members in groups.items():
        if not members:
            raise ConfigError(f"groups: {group!r} has no members; allowed: one or more of {agents}")
        for member in members:
            if member not in agents:
                raise ConfigError(
                    f"groups: {member!r} of group {group!r} is no agent; allowed: {agents}"
                )
            if member in group_of:
                raise ConfigError(
                    f"groups: {member!r} is in {group_of[member]!r} and in {group!r}; an agent can "
                    "be in one group once"
                )
            group_of[member] = group
    return group_of
