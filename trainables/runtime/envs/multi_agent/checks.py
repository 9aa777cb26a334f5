"""Checks of an environment with several agents before training: one error says what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import gymnasium as gym
from gymnasium.vector.utils import create_empty_array

from trainables.core.errors import ConfigError
from trainables.runtime.envs.checks import (
    allowed_action as allowed_action,
)
from trainables.runtime.envs.checks import (
    global_randomness_kept as global_randomness_kept,
)
from trainables.runtime.envs.checks import (
    why_outside as why_outside,
)
from trainables.runtime.envs.multi_agent.agent_groups import possible_agents
from trainables.runtime.envs.multi_agent.dict_slots import DictSlots
from trainables.runtime.envs.multi_agent.forms import (
    MultiAgentApiError,
    checked_reset,
    checked_step,
)
from trainables.runtime.envs.multi_agent.space_rows import row_writer
from trainables.runtime.envs.sub_environment import SubEnvironmentError

_STEPS = 5


def check_multi_agent_env(env: Any, name: str, mask_key: str = "action_mask") -> None:
    """Reset an environment and take a few random steps; silent when all is well.

    It is the first slot's own instance. Global random states are left as they were; the
    environment's own follow from the seed that it is reset with before it is trained on.

    Args:
        env: The environment: a `MultiAgentEnv`.
        name: The name of the environment, for messages.
        mask_key: The key of a Dict observation that says which actions are allowed: only these are
            tried.

    Raises:
        ConfigError: naming the environment and the first thing that is wrong.
    """
    with global_randomness_kept():
        try:
            _play(env, f"env {name!r}", mask_key)
        except SubEnvironmentError as error:
            raise ConfigError(
                f"{error} (disable_env_checking=True leaves this check out)"
            ) from error.__cause__


class _Watched:
    """An environment whose observations are looked at; what it has else is its own."""

    def __init__(self, env: Any, agents: list[Hashable]):
        self.env, self.agents = env, agents
        self.obs: dict[Hashable, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, *, seed: int | None = None) -> Any:
        result = self.env.reset(seed=seed)
        self._look(checked_reset(result)[0])
        return result

    def step(self, actions: dict[Hashable, Any]) -> Any:
        result = self.env.step(actions)
        self._look(checked_step(result).obs)
        return result

    def _look(self, obs: dict[Hashable, Any]) -> None:
        self.obs = obs
        for agent, value in obs.items():
            if agent not in self.agents:
                continue  # that it is unknown is said elsewhere
            wrong = why_outside(self.env.get_observation_space(agent), value, "")
            if wrong is not None:
                raise MultiAgentApiError(f"the observation of agent {agent!r}{wrong}")


def _play(env: Any, name: str, mask_key: str) -> None:
    watched = _Watched(env, possible_agents(env, name))
    slots = DictSlots([lambda: watched], names=[name])
    drawn = {
        agent: copy.deepcopy(group.action_space) for group in slots.groups for agent in group.agents
    }
    for index, space in enumerate(drawn.values()):
        space.seed(index)
    slots.reset(seed=[0])
    for _ in range(_STEPS):
        actions = _actions(slots, watched.obs, drawn, mask_key)
        if actions is None:
            return
        slots.step(actions)


def _actions(
    slots: DictSlots, obs: dict[Hashable, Any], drawn: dict[Hashable, gym.Space], mask_key: str
) -> list[Any] | None:
    """Return a batch of allowed actions for each group; None where none can be drawn."""
    batches = []
    for group in slots.groups:
        batch = create_empty_array(group.action_space, len(group.agents))
        write = row_writer(group.action_space, batch)
        for row, agent in enumerate(group.agents):
            if agent not in obs:
                continue
            action = allowed_action(drawn[agent], obs[agent], mask_key)
            if action is None:
                return None
            write(row, action)
        batches.append(batch)
    return batches
