"""`JointObservations`: slots in which each agent's observation also has what all agents see."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.config.critic_observations import JOINT_OBS
from trainables.core.data.state_shapes import like
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.pettingzoo import OBSERVATION
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
    GroupRows,
)


class JointObservations(AgentsVectorEnv):
    """Adds what all agents see to what each sees, for a value function of all: MAPPO's.

    An agent observes `{…, JOINT_OBS: {agent: what it was shown last}}` where its observation was a
    Dict, and `{"observation": …, JOINT_OBS: …}` where it was none. Of an agent that has not begun
    in this episode the part is zeros; of one that has ended it is its last observation.

    Args:
        env: The slots.

    Raises:
        ConfigError: if an agent observes something under these keys already, or two agents' ids
            are alike as strings.
    """

    def __init__(self, env: AgentsVectorEnv):
        self.env, self.num_envs = env, env.num_envs
        names = [str(agent) for agent in env.agents]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"centralized_critic = True: ids of agents are alike as strings: {names}; allowed: "
                "agents whose ids differ as strings"
            )
        parts = {
            str(agent): group.observation_space for group in env.groups for agent in group.agents
        }
        joint = gym.spaces.Dict(parts)
        self.groups = tuple(
            AgentGroup(group.agents, _with_joint(group, joint), group.action_space)
            for group in env.groups
        )
        # Whether an agent has begun in the present episode, by group: `[N, G]`.
        self._begun = [np.zeros((env.num_envs, len(g.agents)), np.bool_) for g in env.groups]

    @property
    def num_restarts(self) -> int:  # type: ignore[override]  # of what is within
        """How many environments were replaced."""
        return self.env.num_restarts

    def reset(self, seed: list[int] | None = None) -> AgentsStep:
        return self._joined(self.env.reset(seed))

    def step(self, actions: list[Any]) -> AgentsStep:
        return self._joined(self.env.step(actions))

    def close(self) -> None:
        self.env.close()

    def get_state(self) -> dict[str, Any] | None:
        inner = self.env.get_state()
        if inner is None:
            return None
        return {"inner": inner, "begun": [begun.copy() for begun in self._begun]}

    def set_state(self, state: dict[str, Any]) -> None:
        self.env.set_state(state["inner"])
        for own, given in zip(self._begun, state["begun"], strict=True):
            own[...] = like(own, given, "begun")

    def _joined(self, step: AgentsStep) -> AgentsStep:
        joint: dict[str, Any] = {}
        for group, rows, begun in zip(self.env.groups, step.groups, self._begun, strict=True):
            begun[step.resets] = False
            begun |= rows.begins.reshape(begun.shape)
            for place, agent in enumerate(group.agents):
                joint[str(agent)] = _of_place(rows.obs, place, len(group.agents), begun[:, place])
        groups = [
            self._with(rows, len(group.agents), joint)
            for group, rows in zip(self.env.groups, step.groups, strict=True)
        ]
        return step._replace(groups=groups)

    def _with(self, rows: GroupRows, num_agents: int, joint: dict[str, Any]) -> GroupRows:
        """Return a group's rows, each with what all agents of its slot see."""
        own = rows.obs if isinstance(rows.obs, dict) else {OBSERVATION: rows.obs}
        return replace(rows, obs={**own, JOINT_OBS: _repeated(joint, num_agents)})


def _with_joint(group: AgentGroup, joint: gym.spaces.Dict) -> gym.spaces.Dict:
    """Return what agents of a group observe, with what all of them do."""
    space = group.observation_space
    own = dict(space.spaces) if isinstance(space, gym.spaces.Dict) else {OBSERVATION: space}
    if JOINT_OBS in own:
        raise ConfigError(
            f"centralized_critic = True: the agents {_shown(group.agents)} observe something under "
            f"the key {JOINT_OBS!r} already; allowed: critic_obs_key = {JOINT_OBS!r} instead"
        )
    return gym.spaces.Dict({**own, JOINT_OBS: joint})


def _of_place(obs: Any, place: int, num_agents: int, begun: np.ndarray) -> Any:
    """Return what one agent of a group was shown last in each slot, `[N, …]`; else zeros.

    Args:
        obs: Of the group, `[N * G, …]`, a tree of arrays.
        place: The agent's place in the group.
        num_agents: G.
        begun: The slots in which it has begun, `[N]`.
    """
    if isinstance(obs, dict):
        return {k: _of_place(part, place, num_agents, begun) for k, part in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_of_place(part, place, num_agents, begun) for part in obs)
    own = obs[place::num_agents]
    return np.where(begun.reshape(-1, *[1] * (own.ndim - 1)), own, np.zeros((), own.dtype))


def _repeated(tree: Any, count: int) -> Any:
    """Return each row of a tree of arrays so many times in a row."""
    if isinstance(tree, dict):
        return {name: _repeated(part, count) for name, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_repeated(part, count) for part in tree)
    return np.repeat(tree, count, axis=0)


def _shown(agents: tuple[Hashable, ...]) -> str:
    return ", ".join(map(repr, agents))
