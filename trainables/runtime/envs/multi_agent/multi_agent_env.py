"""`MultiAgentEnv`: an environment with several agents, whose methods take and return dicts.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import gymnasium as gym

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.forms import checked_reset, checked_step
from trainables.runtime.envs.multi_agent.grouped_agents import AgentGrouping
from trainables.runtime.envs.state import get_slot_state, set_slot_state

AgentID = Hashable
AgentDict = dict[Hashable, Any]


class MultiAgentEnv(gym.Env):
    """An environment with several agents. Derive from it, and set the attributes in `__init__`.

    Agents come and go: who is in the observations of a reset or step acts in the next step, and
    nobody else. So agents that take turns are observed in turns. An agent takes part from its first
    observation on, until its flag in `terminateds` or `truncateds` is True, or that of "__all__".

    Attributes:
        possible_agents: The ids of all agents that may ever take part: strings, integers, or
            anything else that a dict can have as keys.
        agents: The ids of those that are alive.
        observation_spaces: The observation space of each agent. Instead, `observation_space` may be
            that of all agents, or a `gymnasium.spaces.Dict` with a space for each.
        action_spaces: The action space of each agent; or `action_space`, in the same way.
    """

    possible_agents: list[AgentID]
    agents: list[AgentID]
    observation_spaces: Mapping[AgentID, gym.Space] | None = None
    action_spaces: Mapping[AgentID, gym.Space] | None = None

    def __init__(self) -> None:
        for name in ("possible_agents", "agents"):
            if not hasattr(self, name):
                setattr(self, name, [])

    def reset(  # type: ignore[override]  # dicts by agent, whose ids need be no strings
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        """Begin an episode.

        Args:
            seed: The seed of the environment's random stream `self.np_random`, which
                `super().reset(seed=seed)` sets; None: go on with the present one.
            options: What the environment makes of it.

        Returns:
            The observations of the agents that act in the first step, at least one, and infos.
        """
        super().reset(seed=seed, options=options)
        return {}, {}

    def step(  # type: ignore[override]  # dicts in the place of gymnasium's numbers
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        """Let agents act.

        Args:
            action_dict: The actions of exactly the agents that were observed last.

        Returns:
            Dicts by agent: observations of those that act next, or have just ended; rewards of any
            agents that have not ended; terminateds and truncateds, each with the key "__all__": is
            the episode over for everyone? And infos; the key "__common__" is for all.
        """
        raise NotImplementedError

    def get_observation_space(self, agent_id: AgentID) -> gym.Space:
        """Return what an agent sees.

        Raises:
            ConfigError: if the environment does not say.
        """
        return self._space("observation", agent_id)

    def get_action_space(self, agent_id: AgentID) -> gym.Space:
        """Return what an agent does.

        Raises:
            ConfigError: if the environment does not say.
        """
        return self._space("action", agent_id)

    def get_agent_ids(self) -> set[AgentID]:
        """Return the ids of all agents that may ever take part."""
        return set(self.possible_agents or self.agents)

    def get_state(self) -> Any:
        """Return what the next steps depend on: a tree of numbers, strings, arrays and lists.

        None if the environment cannot tell. `np_random` need not be in it.
        """
        return None

    def set_state(self, state: Any) -> None:
        """Take over `get_state`'s; the environment was made alike and reset once."""
        raise NotImplementedError

    def with_agent_groups(
        self,
        groups: Mapping[AgentID, list[AgentID]],
        obs_space: gym.Space | None = None,
        act_space: gym.Space | None = None,
    ) -> GroupedAgents:
        """Return an environment in which groups of agents are one agent each.

        A group sees and does tuples, a part for each member, and gets the sum of their rewards;
        each member's is in its info, under `_group_rewards`.

        Args:
            groups: The members of each group. Agents that are in no group stay by themselves.
            obs_space: The Tuple space that every group sees; None: of the members' spaces.
            act_space: The Tuple space that every group does; None: of the members' spaces.

        Raises:
            ConfigError: if groups have unknown members, share some, or do not fit the spaces.
        """
        return GroupedAgents(self, groups, obs_space, act_space)

    def _space(self, kind: str, agent: AgentID) -> gym.Space:
        by_agent = getattr(self, f"{kind}_spaces", None)
        shared = getattr(self, f"{kind}_space", None)
        if by_agent is None and isinstance(shared, (dict, gym.spaces.Dict)):
            # A Dict may also be what every agent sees: then no key of it is an agent.
            is_shared = isinstance(shared, gym.spaces.Dict)
            if not is_shared or any(key in self.get_agent_ids() for key in shared):
                by_agent = shared
        found = shared if by_agent is None else dict(by_agent.items()).get(agent)
        if not isinstance(found, gym.Space):
            raise ConfigError(
                f"the {kind} space of agent {agent!r} is {found!r}: set {kind}_spaces to a dict "
                f"with a gymnasium space for each agent, or {kind}_space to one for all"
            )
        return found


class MultiAgentWrapper(MultiAgentEnv):
    """An environment around another one: what a subclass does not change is as it is there.

    A subclass says what its agents see and do, in `observation_spaces` and `action_spaces`.

    Args:
        env: The environment.

    Attributes:
        env: The environment.
    """

    def __init__(self, env: MultiAgentEnv):
        self.env = env
        self.possible_agents = list(env.possible_agents or env.agents)
        self.agents = list(env.agents)
        self.metadata, self.render_mode = env.metadata, env.render_mode
        super().__init__()

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def get_state(self) -> Any:
        inner = get_slot_state(self.env)
        return None if inner is None or inner[0].get("own", 0) is None else inner

    def set_state(self, state: Any) -> None:
        set_slot_state(self.env, state)
        self.agents = list(self.env.agents)


class GroupedAgents(MultiAgentWrapper):
    """An environment in which groups of agents are one agent each.

    See `MultiAgentEnv.with_agent_groups`.

    Attributes:
        env: The environment with the agents by themselves.
        grouping: What makes one dict of the other.
    """

    def __init__(
        self,
        env: MultiAgentEnv,
        groups: Mapping[AgentID, list[AgentID]],
        obs_space: gym.Space | None = None,
        act_space: gym.Space | None = None,
    ):
        super().__init__(env)
        self.grouping = AgentGrouping(groups, self.possible_agents)
        self.observation_spaces = self.grouping.spaces(env.get_observation_space, obs_space)
        self.action_spaces = self.grouping.spaces(env.get_action_space, act_space)
        self.possible_agents = self.grouping.agents
        self.agents = list(self.possible_agents)

    def reset(  # type: ignore[override]  # dicts by agent, whose ids need be no strings
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        obs, infos = checked_reset(self.env.reset(seed=seed, options=options))
        self.grouping.begin()
        self.agents = list(self.possible_agents)
        return self.grouping.observations(obs), self.grouping.infos(infos)

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        step = checked_step(self.env.step(self.grouping.actions(action_dict)))
        terminateds, truncateds = self.grouping.ends(step.terminateds, step.truncateds)
        obs = self.grouping.observations(step.obs)
        rewards, member_rewards = self.grouping.rewards(step.rewards)
        infos = self.grouping.infos(step.infos, member_rewards)
        self.agents = self.grouping.alive()
        return obs, rewards, terminateds, truncateds, infos

    def get_state(self) -> Any:
        inner = super().get_state()
        if inner is None:
            return None
        own = self.grouping.get_state(self.env.get_observation_space)
        return {"env": inner, "grouping": own}

    def set_state(self, state: Any) -> None:
        super().set_state(state["env"])
        self.grouping.set_state(state["grouping"], self.env.get_observation_space)
        self.agents = self.grouping.alive()
