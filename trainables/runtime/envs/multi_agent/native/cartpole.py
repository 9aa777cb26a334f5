"""Several cart poles a slot, each balanced by its own agent."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.runtime.envs.multi_agent.native.game import (
    NativeGame,
    Outcome,
    agent_names,
    checked_int,
)
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

_GRAVITY = 9.8
_MASS_POLE = 0.1
_TOTAL_MASS = _MASS_POLE + 1.0
_HALF_LENGTH = 0.5
_POLE_MASS_LENGTH = _MASS_POLE * _HALF_LENGTH
_FORCE = 10.0
_TAU = 0.02  # seconds
_X_LIMIT = 2.4
_ANGLE_LIMIT = 12 * 2 * np.pi / 360
_START = 0.05  # the largest first value of each number of the state
_MAX_STEPS = 500
_ONE = np.ones((1, 1))


class CartPoleAgents(NativeGame):
    """Cart poles that do not touch: an agent's is that of gymnasium's CartPole-v1, bit by bit.

    Each pays 1 a step until its pole falls (terminated) or 500 steps have passed (truncated). Its
    agent is silent from then on, until those of all others in the slot have ended, too.

    Args:
        num_envs: Number of slots.
        num_agents: Number of cart poles in each.
    """

    def __init__(self, num_envs: int, num_agents: int = 4):
        num_agents = checked_int("num_agents", num_agents, 1)
        high = np.array([_X_LIMIT * 2, np.inf, _ANGLE_LIMIT * 2, np.inf], np.float32)
        group = AgentGroup(
            agent_names("agent", num_agents),
            spaces.Box(-high, high, dtype=np.float32),
            spaces.Discrete(2),
        )
        super().__init__(num_envs, (group,), ("state", "steps"))
        # Position, velocity, angle, angular velocity of each cart pole, `[4, N, A]`.
        self.state = np.zeros((4, num_envs, num_agents))
        self.steps = np.zeros(num_envs, np.int64)
        self._limits = np.array([_X_LIMIT, _ANGLE_LIMIT])[:, None, None]

    def _begin(self, slots: np.ndarray) -> None:
        num_agents = self.state.shape[2]
        first = self._streams.uniform(slots, 4 * num_agents).reshape(-1, 4, num_agents)
        self.state[:, slots] = ((2 * first - 1) * _START).swapaxes(0, 1)
        self.steps[slots] = 0

    def _advance(self, actions: list[np.ndarray], playing: np.ndarray) -> Outcome:
        _, x_dot, theta, theta_dot = self.state
        force = np.where(actions[0] == 1, _FORCE, -_FORCE)
        cos, sin = np.cos(theta), np.sin(theta)
        # Barto, Sutton and Anderson (1983) with Florian's (2007) corrections. The order of
        # operations is gymnasium's, so that the last bit is, too.
        push = (force + _POLE_MASS_LENGTH * np.square(theta_dot) * sin) / _TOTAL_MASS
        theta_acc = (_GRAVITY * sin - cos * push) / (
            _HALF_LENGTH * (4.0 / 3.0 - _MASS_POLE * np.square(cos) / _TOTAL_MASS)
        )
        change = np.empty_like(self.state)
        change[0], change[2], change[3] = x_dot, theta_dot, theta_acc
        change[1] = push - _POLE_MASS_LENGTH * theta_acc * cos / _TOTAL_MASS
        change *= _TAU
        np.add(self.state, change, out=self.state, where=playing)
        self.steps += 1
        terminated = np.logical_or.reduce(np.abs(self.state[::2]) > self._limits)
        return Outcome(_ONE, terminated, (self.steps >= _MAX_STEPS)[:, None])

    def _observe(self) -> list[Any]:
        return [self.state.reshape(4, -1).T.astype(np.float32, order="C")]
