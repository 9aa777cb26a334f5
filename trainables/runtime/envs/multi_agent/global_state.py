"""`TellsState`: an environment whose infos have its global state.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.forms import (
    COMMON,
    GLOBAL_STATE,
    MultiAgentApiError,
    checked_reset,
    checked_step,
)
from trainables.runtime.envs.multi_agent.multi_agent_env import (
    AgentDict,
    MultiAgentEnv,
    MultiAgentWrapper,
)


class TellsState(MultiAgentWrapper):
    """Puts `state()` of an environment into its infos, for all agents together.

    Args:
        env: The environment.
        source: What has `state_space` and `state`: it, or a layer of it.

    Attributes:
        state_space: The space of the global state.

    Raises:
        ConfigError: if that is no space of arrays.
    """

    def __init__(self, env: MultiAgentEnv, source: Any):
        super().__init__(env)
        self._source = source
        self.observation_spaces = {a: env.get_observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: env.get_action_space(a) for a in self.possible_agents}
        self.state_space: gym.Space = source.state_space
        if isinstance(self.state_space, (gym.spaces.Dict, gym.spaces.Tuple)):
            raise ConfigError(
                f"state_space = {self.state_space} is not supported; allowed: an array, not a Dict "
                "or Tuple"
            )

    def reset(  # type: ignore[override]  # dicts by agent, whose ids need be no strings
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[AgentDict, AgentDict]:
        obs, infos = checked_reset(self.env.reset(seed=seed, options=options))
        self.agents = list(self.env.agents)
        return obs, self._told(infos)

    def step(  # type: ignore[override]
        self, action_dict: AgentDict
    ) -> tuple[AgentDict, AgentDict, AgentDict, AgentDict, AgentDict]:
        step = checked_step(self.env.step(action_dict))
        self.agents = list(self.env.agents)
        return step._replace(infos=self._told(step.infos))

    def _told(self, infos: AgentDict) -> dict[Hashable, Any]:
        """Return infos with the present global state.

        Raises:
            MultiAgentApiError: if it has another shape than its space.
        """
        state = np.asarray(self._source.state(), self.state_space.dtype)
        if state.shape != self.state_space.shape:
            raise MultiAgentApiError(
                f"state() returned an array of shape {state.shape}; allowed: that of state_space, "
                f"{self.state_space}"
            )
        return {**infos, COMMON: {**infos.get(COMMON, {}), GLOBAL_STATE: state}}


def telling_state(env: MultiAgentEnv) -> MultiAgentEnv:
    """Return an environment that tells its global state, or as it is if it has none.

    A global state has who has `state_space`, a gymnasium space, and the method `state()`: the
    environment or what it wraps, as PettingZoo's have it.
    """
    layer: Any = env
    while layer is not None:
        has_space = isinstance(getattr(layer, "state_space", None), gym.Space)
        if has_space and callable(getattr(layer, "state", None)):
            return TellsState(env, layer)
        layer = getattr(layer, "env", None)
    return env
