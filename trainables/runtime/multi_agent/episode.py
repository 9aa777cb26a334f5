"""`AgentsEpisode`: an episode with several agents, as policy mappings and callbacks see it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class AgentsEpisode:
    """An episode that runs in a slot.

    Attributes:
        episode_id: Counts the episodes of an env runner, or of a part of an evaluation.
        env_index: The slot that it is in.
        worker: What samples or evaluates it.
        policy_of: The id of the policy that acts for each agent that has begun, by agent.
        returns: The sum of each agent's rewards so far, by agent.
        length: Environment steps so far.
        user_data: Lives as long as the episode, for whatever you put into it.
    """

    episode_id: int
    env_index: int
    worker: Any = None
    policy_of: dict[Hashable, str] = field(default_factory=dict)
    returns: dict[Hashable, float] = field(default_factory=dict)
    length: int = 0
    user_data: dict[Any, Any] = field(default_factory=dict)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """The newer name of `user_data`."""
        return self.user_data

    @property
    def env_id(self) -> int:
        """Another name of `env_index`."""
        return self.env_index

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # also before the first step

    @property
    def total_reward(self) -> float:
        """Sum of all agents' rewards so far."""
        return float(sum(self.returns.values()))

    def get_return(self) -> float:
        """Return the sum of all agents' rewards so far."""
        return self.total_reward

    @property
    def agent_rewards(self) -> dict[tuple[Hashable, str], float]:
        """Sums of rewards so far, by agent and policy."""
        return {(agent, self.policy_of[agent]): total for agent, total in self.returns.items()}

    def get_agents(self) -> list[Hashable]:
        """Return the agents that have begun."""
        return list(self.policy_of)

    def policy_for(self, agent_id: Hashable) -> str:
        """Return the id of the policy that acts for an agent.

        Raises:
            KeyError: if it has not begun.
        """
        if agent_id not in self.policy_of:
            raise KeyError(f"no agent {agent_id!r}; there are {self.get_agents()}")
        return self.policy_of[agent_id]
