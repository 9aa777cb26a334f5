"""`JointObservations`: slots in which each agent's observation also has what all agents see."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.config.rules import JOINT_OBS
from trainables.core.data.stored import like
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.pettingzoo import OBSERVATION
from trainables.runtime.envs.multi_agent.vector_env import (
    AgentGroup,
    AgentsStep,
    AgentsVectorEnv,
    GroupRows,
)

_AFTER = "next_"  # and by how many places, around a group


class JointObservations(AgentsVectorEnv):
    """Adds what all agents see to what each sees, for a value function of all: MAPPO's.

    An agent observes `{…, JOINT_OBS: what all were shown last}` where its observation was a Dict,
    and `{"observation": …, JOINT_OBS: …}` where it was none. The joint part begins with the agent
    itself: `next_0` is its own, `next_1` that of the agent after it among those with the same
    spaces, and so on around; agents with other spaces are there by their ids. So a value function
    of agents that share a policy is one of "me and the others": in one order for all, what three
    agents see is one row three times, and which of them is meant has to be found out (Yu et al.,
    2022, call this one agent-specific). Of an agent that has not begun in this episode the part is
    zeros; of one that has ended it is its last observation.

    Args:
        env: The slots.

    Raises:
        ConfigError: if an agent observes something under these keys already, or two agents' ids
            are alike as strings, or one is such a key.
    """

    def __init__(self, env: AgentsVectorEnv):
        self.env, self.num_envs = env, env.num_envs
        names = [str(agent) for agent in env.agents]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"centralized_critic = True: ids of agents are alike as strings: {names}; allowed: "
                "agents whose ids differ as strings"
            )
        if taken := [name for name in names if name.startswith(_AFTER)]:
            raise ConfigError(
                f"centralized_critic = True: the id {taken[0]!r} of an agent is a key of what all "
                f"see; allowed: ids that do not begin with {_AFTER!r}"
            )
        self.groups = tuple(
            AgentGroup(
                group.agents, _with_joint(group, self._joint_space(group)), group.action_space
            )
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

    def _joint_space(self, group: AgentGroup) -> gym.spaces.Dict:
        """Return what all agents see, as the agents of a group have it."""
        parts = {f"{_AFTER}{k}": group.observation_space for k in range(len(group.agents))}
        for other in self.env.groups:
            if other is not group:
                parts |= {str(agent): other.observation_space for agent in other.agents}
        return gym.spaces.Dict(parts)

    def _joined(self, step: AgentsStep) -> AgentsStep:
        by_group: list[list[Any]] = []  # of each group what its agents were shown, `[N, …]` each
        for group, rows, begun in zip(self.env.groups, step.groups, self._begun, strict=True):
            begun[step.resets] = False
            begun |= rows.begins.reshape(begun.shape)
            count = len(group.agents)
            by_group.append([_of_place(rows.obs, p, count, begun[:, p]) for p in range(count)])
        groups = [self._with(rows, number, by_group) for number, rows in enumerate(step.groups)]
        return step._replace(groups=groups)

    def _with(self, rows: GroupRows, number: int, by_group: list[list[Any]]) -> GroupRows:
        """Return the rows of the group of that number, each with what all of its slot see."""
        shown = by_group[number]
        count = len(shown)
        joint = {f"{_AFTER}{k}": _interleaved(shown[k:] + shown[:k]) for k in range(count)}
        for other, (group, parts) in enumerate(zip(self.env.groups, by_group, strict=True)):
            if other != number:
                named = zip(map(str, group.agents), parts, strict=True)
                joint |= {name: _interleaved([part] * count) for name, part in named}
        own = rows.obs if isinstance(rows.obs, dict) else {OBSERVATION: rows.obs}
        return replace(rows, obs={**own, JOINT_OBS: joint})


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


def _interleaved(trees: list[Any]) -> Any:
    """Return rows `[N * G, …]` of G trees of arrays `[N, …]`, slot by slot."""
    first = trees[0]
    if isinstance(first, dict):
        return {name: _interleaved([tree[name] for tree in trees]) for name in first}
    if isinstance(first, tuple):
        return tuple(_interleaved(list(parts)) for parts in zip(*trees, strict=True))
    return np.stack(trees, 1).reshape(-1, *first.shape[1:])


def _shown(agents: tuple[Hashable, ...]) -> str:
    return ", ".join(map(repr, agents))
