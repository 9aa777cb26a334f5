"""`TeamVectorEnv`: all agents of an environment as one agent, whose reward is the sum of theirs."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from trainables.core.data.spaces import map_leaves
from trainables.core.data.stored import like
from trainables.core.data.team import AGENTS, STATE
from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import OwnVectorEnv
from trainables.runtime.envs.multi_agent.forms import MultiAgentApiError
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep, AgentsVectorEnv
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.random_streams import draw_seed


class TeamVectorEnv(OwnVectorEnv):
    """N slots of a team of G agents with equal spaces, as a vector environment of one agent.

    It observes `{"agents": …}`, what each agent sees, `[G, …]` of each leaf; `"state"` beside it,
    if the environment has a global state; and the agents' action masks side by side, `[G * A]`. Its
    action is one of each agent, `[G]`.

    All agents act together until each ends. For one that has ended the team sees what it saw last,
    and its part of the action is dropped. The episode is truncated if any agent was, else
    terminated.

    Args:
        env: The agents by themselves; closed with this.
        name: What errors call the environment.
        mask_key: The key of an agent's Dict observation that says which actions are allowed.

    Raises:
        ConfigError: if agents' spaces differ, or a team cannot have them.
    """

    def __init__(self, env: AgentsVectorEnv, name: str, mask_key: str):
        group = _only_group(env, name)
        self._env, self._name, self._mask_key = env, name, mask_key
        self.num_envs, self._num_agents = env.num_envs, len(group.agents)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._seen, self._has_mask = _without_mask(group.observation_space, mask_key)
        parts: dict[str, gym.Space] = {
            AGENTS: _joint(self._seen, self._num_agents, f"env {name!r}: what an agent sees")
        }
        if env.state_space is not None:
            parts[STATE] = _joint(env.state_space, 1, f"env {name!r}: state_space")
        assert isinstance(group.action_space, spaces.Discrete)
        if self._has_mask:
            size = self._num_agents * int(group.action_space.n)
            parts[mask_key] = spaces.Box(0, 1, (size,), np.int8)
        self.single_observation_space = spaces.Dict(parts)
        self.single_action_space = batch_space(group.action_space, self._num_agents)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        # Of the present episodes: agents that have ended, and those of them that were cut off.
        self._ended = np.zeros((self.num_envs, self._num_agents), bool)
        self._cut = np.zeros_like(self._ended)

    @property
    def num_restarts(self) -> int:
        """How many environments were replaced."""
        return self._env.num_restarts

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every slot.

        Args:
            seed: One seed, that each slot gets another one of; None: the streams go on.
            options: What gymnasium's API has; it is not passed on.
        """
        seeds = None
        if seed is not None:
            children = np.random.SeedSequence(seed).spawn(self.num_envs)
            seeds = [draw_seed(child) for child in children]
        step = self._env.reset(seeds)
        self._note_ends(step)
        return self._observed(step), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        step = self._env.step([np.asarray(actions).reshape(-1)])
        self._note_ends(step)
        is_cut = step.is_over & self._cut.any(1)
        infos = {RESTARTS: step.replaced.astype(np.int64)} if step.replaced.any() else {}
        rewards = self._by_agent(step.groups[0].rewards).sum(1)
        return self._observed(step), rewards, step.is_over & ~is_cut, is_cut, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments."""
        self._env.close()

    def _note_ends(self, step: AgentsStep) -> None:
        """Take in who has ended.

        Raises:
            MultiAgentApiError: if an agent that has not does not act in the next step.
        """
        rows = step.groups[0]
        truncated = self._by_agent(rows.truncated)
        self._ended[step.resets] = self._cut[step.resets] = False
        self._ended |= self._by_agent(rows.terminated) | truncated
        self._cut |= truncated
        is_idle = ~(self._by_agent(rows.acts) | self._ended | step.is_over[:, None])
        for slot, agent in np.argwhere(is_idle):
            raise MultiAgentApiError(
                f"env {self._name!r}, slot {slot}: agent {self._env.agents[agent]!r} is not asked "
                "to act, and has not ended; the agents of a team act together, in every step"
            )

    def _by_agent(self, column: np.ndarray) -> np.ndarray:
        return column.reshape(self.num_envs, self._num_agents)

    def _observed(self, step: AgentsStep) -> dict[str, Any]:
        shown: Any = step.groups[0].obs
        obs: dict[str, Any] = {}
        if self._has_mask:
            obs[self._mask_key] = shown[self._mask_key].reshape(self.num_envs, -1).copy()
        obs[AGENTS] = map_leaves(
            lambda leaf, rows: self._rows(leaf, rows, self._num_agents), self._seen, shown
        )
        if self._env.state_space is not None:
            obs[STATE] = self._rows(self._env.state_space, self._env.states(), 1)
        return obs

    def _rows(self, leaf: gym.Space, rows: np.ndarray, count: int) -> np.ndarray:
        """Return a leaf's rows as the joint space has them, copied: the next step writes there."""
        shape = (leaf.shape or ()) if isinstance(leaf, spaces.MultiDiscrete) else (-1,)
        if isinstance(leaf, spaces.Discrete):
            shape = ()
        return rows.reshape(self.num_envs, count, *shape).copy()

    def get_state(self) -> dict[str, Any] | None:
        """Return what the next steps depend on; None if an environment cannot give its state."""
        own = self._env.get_state()
        if own is None:
            return None
        return {"env": own, "ended": self._ended.copy(), "cut": self._cut.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s."""
        self._env.set_state(state["env"])
        self._ended = like(self._ended, state["ended"], "agents that have ended")
        self._cut = like(self._cut, state["cut"], "agents that were cut off")


def _only_group(env: AgentsVectorEnv, name: str) -> AgentGroup:
    """Return the agents of a team.

    Raises:
        ConfigError: if their spaces differ, or they do not choose among actions.
    """
    first, *others = env.groups
    if others:
        raise ConfigError(
            f"env {name!r}: the agents {list(first.agents)} and {list(others[0].agents)} have "
            "different spaces; allowed: equal ones, as the agents of a team share one network"
        )
    if not isinstance(first.action_space, spaces.Discrete):
        raise ConfigError(
            f"env {name!r}: agents of a team have the action space {first.action_space}; allowed: "
            "Discrete; and agents by themselves, as all of them are made one here"
        )
    return first


def _without_mask(space: gym.Space, mask_key: str) -> tuple[gym.Space, bool]:
    """Return what an agent sees but for its mask, and whether it has one."""
    if not isinstance(space, spaces.Dict) or mask_key not in space.spaces:
        return space, False
    return spaces.Dict({key: part for key, part in space.items() if key != mask_key}), True


def _joint(space: gym.Space, count: int, what: str) -> gym.Space:
    """Return the space of several values of a space, of each leaf `[count, …]`.

    Boxes and bits are flat, `[count, width]`, as nothing else is to be told from an image.

    Raises:
        ConfigError: for a space that holds images, or is not supported.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _joint(part, count, what) for key, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_joint(part, count, what) for part in space.spaces])
    if isinstance(space, spaces.MultiDiscrete):
        copies = (count, *[1] * space.nvec.ndim)
        start = np.broadcast_to(space.start, space.nvec.shape)
        return spaces.MultiDiscrete(
            np.tile(space.nvec, copies), dtype=space.dtype, start=np.tile(start, copies)
        )
    if isinstance(space, spaces.Box) and len(space.shape) == 3:
        raise ConfigError(
            f"{what} has the image {space}, which a team's networks do not take; allowed: vectors"
        )
    batched = batch_space(space, count)
    if not isinstance(batched, spaces.Box):
        return batched
    low, high = (bound.reshape(count, -1) for bound in (batched.low, batched.high))
    return spaces.Box(low, high, dtype=batched.dtype.type)
