"""`SingleAgent`: an environment of one agent, as one with several of which there is one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from trainables.runtime.envs.multi_agent.forms import ALL
from trainables.runtime.envs.multi_agent.multi_agent_env import AgentDict, MultiAgentEnv
from trainables.runtime.envs.state import get_slot_state, set_slot_state

AGENT = "agent0"
"""The agent's id, as the reference has it."""


class SingleAgent(MultiAgentEnv):
    """An environment of one agent for policies that are mapped to agents.

    Args:
        env: The environment.
    """

    def __init__(self, env: gym.Env):
        self.env = env
        self.possible_agents = [AGENT]
        self.agents = [AGENT]
        self.observation_spaces = {AGENT: env.observation_space}
        self.action_spaces = {AGENT: env.action_space}
        self.metadata, self.render_mode = env.metadata, env.render_mode
        super().__init__()

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        obs, info = self.env.reset(seed=seed, options=options)
        self.agents = [AGENT]
        return {AGENT: obs}, {AGENT: info}

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        obs, reward, terminated, truncated, info = self.env.step(action_dict[AGENT])
        if terminated or truncated:
            self.agents = []
        ends: AgentDict = {AGENT: bool(terminated), ALL: bool(terminated)}
        cuts: AgentDict = {AGENT: bool(truncated), ALL: bool(truncated)}
        return {AGENT: obs}, {AGENT: reward}, ends, cuts, {AGENT: info}

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def get_state(self) -> Any:
        return get_slot_state(self.env)

    def set_state(self, state: Any) -> None:
        set_slot_state(self.env, state)
        self.agents = [AGENT]
