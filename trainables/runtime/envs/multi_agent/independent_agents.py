"""`make_multi_agent`: independent copies of an environment of one agent, as several agents.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import env_name, resolve_env
from trainables.runtime.envs.multi_agent.forms import ALL, MultiAgentApiError
from trainables.runtime.envs.multi_agent.multi_agent_env import AgentDict, MultiAgentEnv
from trainables.runtime.envs.slots import EnvContext, EnvOptions, SlotMaker
from trainables.runtime.envs.state import get_slot_state, set_slot_state
from trainables.runtime.random_streams import draw_seed

NUM_AGENTS = "num_agents"


def make_multi_agent(env_name_or_creator: str | Callable[..., Any]) -> type[IndependentAgents]:
    """Return a class of environments whose agents each play in a copy of one environment.

    The agents are the integers from 0. Each ends by itself, and the episode is over when all have.

    Args:
        env_name_or_creator: What the setting `env` may be, of one agent.

    Returns:
        A class whose `env_config` is that of the copies, but for its key `num_agents` (default 1).
    """
    name = env_name(env_name_or_creator)
    attributes = {
        "creator": staticmethod(env_name_or_creator)
        if callable(env_name_or_creator)
        else env_name_or_creator,
        # No name that finds it again in this module: that would be the class without a creator.
        "__qualname__": f"make_multi_agent.<{name}>",
        "__doc__": f"Independent copies of {name}, as several agents.",
    }
    return type("IndependentAgents", (IndependentAgents,), attributes)


class IndependentAgents(MultiAgentEnv):
    """Copies of an environment of one agent; see `make_multi_agent`, which sets `creator`.

    Args:
        config: The copies' `env_config`, and `num_agents`.

    Attributes:
        envs: The copies, `[num_agents]`.

    Raises:
        ConfigError: if `num_agents` is no number of agents, or a copy cannot be made.
    """

    creator: ClassVar[str | Callable[..., Any]]

    def __init__(self, config: Mapping[str, Any] | None = None):
        maker, count = _maker(self.creator, config or {})
        self.envs: list[gym.Env] = []
        try:
            for _ in range(count):
                self.envs.append(maker.make_inner(maker.context()))
        except BaseException:
            self.close()
            raise
        self.possible_agents = list(range(count))
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict(enumerate(env.observation_space for env in self.envs))
        self.action_spaces = dict(enumerate(env.action_space for env in self.envs))
        self.metadata, self.render_mode = self.envs[0].metadata, self.envs[0].render_mode
        self._terminated, self._truncated = [False] * count, [False] * count
        super().__init__()

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        self.agents = list(self.possible_agents)
        self._terminated = [False] * len(self.envs)
        self._truncated = [False] * len(self.envs)
        seeds = _seeds(seed, len(self.envs))
        pairs = zip(self.envs, seeds, strict=True)
        results = [env.reset(seed=own, options=options) for env, own in pairs]
        return (
            {agent: result[0] for agent, result in enumerate(results)},
            {agent: result[1] for agent, result in enumerate(results)},
        )

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        obs: AgentDict = {}
        rewards: AgentDict = {}
        terminateds: AgentDict = {}
        truncateds: AgentDict = {}
        infos: AgentDict = {}
        for agent, action in action_dict.items():
            if agent not in self.agents:
                raise MultiAgentApiError(
                    f"agent {agent!r} was given an action; those that can act are {self.agents}"
                )
            env = self.envs[agent]  # type: ignore[call-overload]  # the ids are the indices
            obs[agent], rewards[agent], terminated, truncated, infos[agent] = env.step(action)
            terminateds[agent], truncateds[agent] = bool(terminated), bool(truncated)
        for agent in action_dict:
            if terminateds[agent] or truncateds[agent]:
                self._terminated[agent] = terminateds[agent]  # type: ignore[call-overload]
                self._truncated[agent] = truncateds[agent]  # type: ignore[call-overload]
                self.agents.remove(agent)
        is_over = not self.agents
        terminateds[ALL] = is_over and any(self._terminated)
        truncateds[ALL] = is_over and any(self._truncated)
        return obs, rewards, terminateds, truncateds, infos

    def render(self) -> Any:
        """Render the first agent's copy."""
        return self.envs[0].render()

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def get_state(self) -> Any:
        copies = [get_slot_state(env) for env in self.envs]
        if any(copy is None for copy in copies):
            return None
        return {
            "copies": copies,
            "terminated": list(self._terminated),
            "truncated": list(self._truncated),
        }

    def set_state(self, state: Any) -> None:
        for env, copy in zip(self.envs, state["copies"], strict=True):
            set_slot_state(env, copy)
        self._terminated = [bool(flag) for flag in state["terminated"]]
        self._truncated = [bool(flag) for flag in state["truncated"]]
        ended = [a or b for a, b in zip(self._terminated, self._truncated, strict=True)]
        self.agents = [agent for agent in self.possible_agents if not ended[agent]]  # type: ignore[call-overload]


def _maker(creator: str | Callable[..., Any], config: Mapping[str, Any]) -> tuple[SlotMaker, int]:
    """Return what makes a copy, and how many are to be made."""
    count = config.get(NUM_AGENTS, 1)
    if type(count) is not int or count < 1:
        raise ConfigError(
            f"env_config: {NUM_AGENTS} = {count!r} is not allowed; allowed: int, >= 1"
        )
    inner = {key: value for key, value in config.items() if key != NUM_AGENTS}
    context = config if isinstance(config, EnvContext) else EnvContext({})
    maker = SlotMaker(
        env_name(creator),
        resolve_env(creator),
        inner,
        context.worker_index,
        context.vector_index,
        context.num_workers,
        EnvOptions(remote=context.remote),
    )
    return maker, count


def _seeds(seed: int | None, count: int) -> list[int | None]:
    """Return a seed for each copy. One copy plays the episodes of the environment by itself."""
    if seed is None or count == 1:
        return [seed] * count
    return [draw_seed(child) for child in np.random.SeedSequence(seed).spawn(count)]
