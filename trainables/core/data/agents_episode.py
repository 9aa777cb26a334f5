"""`AgentsEpisode`: an episode with several agents, as policy mappings and callbacks see it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from trainables.core.data.episode_base import INSTEAD, EpisodeBase

COMMON = "__common__"
"""The key of an info that belongs to no agent."""

_WHICH = "does not exist with several agents: use"


class SlotsNow(Protocol):
    """What slots with several agents show at present; see `AgentsNow`."""

    policy_map: Mapping[str, Any]
    is_evaluation: bool

    def length(self, slot: int) -> int: ...

    def total(self, slot: int, agent: Hashable) -> float: ...

    def observation(self, slot: int, agent: Hashable) -> Any: ...

    def action(self, slot: int, agent: Hashable) -> Any: ...

    def reward(self, slot: int, agent: Hashable) -> float: ...

    def info(self, slot: int, agent: Hashable) -> Any: ...

    def ends(self, slot: int) -> tuple[bool, bool]: ...


@dataclass(eq=False)
class AgentsEpisode(EpisodeBase):
    """An episode with several agents: valid within the call, but for the dicts.

    Attributes:
        policy_of: The id of the policy that acts for each agent that has begun, by agent.
    """

    _instead: ClassVar[Mapping[str, str]] = {
        **INSTEAD,
        "module_id": f"{_WHICH} policy_for(agent)",
        "last_observation": f"{_WHICH} last_observation_for(agent)",
        "last_action": f"{_WHICH} last_action_for(agent)",
        "last_reward": f"{_WHICH} last_reward_for(agent)",
        "last_info": f"{_WHICH} last_info_for(agent)",
        "last_extra_action_outs_for": "does not exist: policies[episode.policy_for(agent)]."
        "compute_single_action(episode.last_observation_for(agent), full_fetch=True) computes it",
        "policy_mapping_fn": "does not exist: policy_for(agent) names the policy that acts",
    }

    policy_of: dict[Hashable, str] = field(default_factory=dict)
    # None: nothing has been seen of one that only might begin.
    _now: SlotsNow | None = field(default=None, repr=False)

    @property
    def is_evaluation(self) -> bool:
        """Whether it is one of an evaluation."""
        return self._now is not None and self._now.is_evaluation

    @property
    def policy_map(self) -> Mapping[str, Any]:
        """The policies that act, by id."""
        return {} if self._now is None else self._now.policy_map

    @property
    def length(self) -> int:
        return 0 if self._now is None else self._now.length(self.env_index)

    @property
    def returns(self) -> dict[Hashable, float]:
        """The sum of the rewards so far of each agent that has begun, by agent."""
        if self._now is None:
            return {}
        return {agent: self._now.total(self.env_index, agent) for agent in self.policy_of}

    @property
    def total_reward(self) -> float:
        return float(sum(self.returns.values()))

    @property
    def is_terminated(self) -> bool:
        """Whether it is over, and the environment has ended an agent in its last step."""
        return self._now is not None and self._now.ends(self.env_index)[0]

    @property
    def is_truncated(self) -> bool:
        """Whether it is over, and an agent was cut off in its last step."""
        return self._now is not None and self._now.ends(self.env_index)[1]

    @property
    def agent_rewards(self) -> dict[tuple[Hashable, str], float]:
        """Sums of rewards so far, by agent and policy."""
        return {(agent, self.policy_of[agent]): total for agent, total in self.returns.items()}

    # ------------------------------------------------------------------ by agent

    def get_agents(self) -> list[Hashable]:
        """Return the agents that have begun, also those that have ended since."""
        return list(self.policy_of)

    def policy_for(self, agent_id: Hashable) -> str:
        """Return the id of the policy that acts for an agent.

        Raises:
            KeyError: if it has not begun.
        """
        self._seen(agent_id)
        return self.policy_of[agent_id]

    def last_observation_for(self, agent_id: Hashable) -> Any:
        """Return what an agent was shown last, not preprocessed; a copy.

        Raises:
            KeyError: if it has not begun.
        """
        return self._seen(agent_id).observation(self.env_index, agent_id)

    last_raw_obs_for = last_observation_for

    def last_action_for(self, agent_id: Hashable) -> Any:
        """Return an agent's last action as the environment was given it, a copy; None before any.

        Raises:
            KeyError: if the agent has not begun.
            AttributeError: in a policy mapping while no hook of episodes is overridden.
        """
        return self._seen(agent_id).action(self.env_index, agent_id)

    def last_reward_for(self, agent_id: Hashable) -> float:
        """Return what an agent got in the last step; 0 before the first one.

        Raises:
            KeyError: if it has not begun.
        """
        return self._seen(agent_id).reward(self.env_index, agent_id)

    def last_info_for(self, agent_id: Hashable) -> Any:
        """Return the last info of the episode that an agent was given; {} if none was.

        Args:
            agent_id: The agent; "__common__": the info that belongs to none.

        Raises:
            KeyError: if the agent has not begun.
        """
        if agent_id == COMMON:
            return {} if self._now is None else self._now.info(self.env_index, COMMON)
        return self._seen(agent_id).info(self.env_index, agent_id)

    def _seen(self, agent_id: Hashable) -> SlotsNow:
        """Return what was seen of an agent.

        Raises:
            KeyError: if it has not begun.
        """
        if agent_id not in self.policy_of or self._now is None:
            raise KeyError(f"no agent {agent_id!r}; there are {self.get_agents()}")
        return self._now
