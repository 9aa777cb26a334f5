"""Carts that arrive together or not; each driver knows its road and toll, and all pay for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from trainables.runtime.envs.multi_agent.native.game import (
    NativeGame,
    Outcome,
    agent_names,
    checked_int,
    checked_number,
)
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup


class ConvoyGame(NativeGame):
    """A team game in which what the others know decides most of the return.

    In each leg every driver alone is shown which of K roads its cart has to take, one-hot, and the
    toll of its own part of the way, which is drawn from 0 to 1 at the start of an episode and
    stays. The whole team is paid the square of the share of carts that took their roads, as those
    that arrive together are worth more, and pays the mean of all tolls times `toll`, whatever it
    does. After the last leg all are truncated.

    So a driver cannot tell what it is paid for: of its own observation a value function knows one
    toll of A. The best return of an agent is legs (1 - toll / 2) in the mean, that of uniform
    actions legs (p² + p (1 - p) / A - toll / 2), with p = 1 / K.

    Args:
        num_envs: Number of slots.
        num_agents: Number of drivers, A.
        roads: Number of roads, K.
        legs: Steps of an episode.
        toll: What the team pays in a leg at most.
    """

    def __init__(
        self,
        num_envs: int,
        num_agents: int = 4,
        roads: int = 4,
        legs: int = 25,
        toll: float = 4.0,
    ):
        num_agents = checked_int("num_agents", num_agents, 2)
        self._roads = checked_int("roads", roads, 2)
        self._legs, self._toll = checked_int("legs", legs, 1), checked_number("toll", toll)
        group = AgentGroup(
            agent_names("driver", num_agents),
            spaces.Box(0, 1, (self._roads + 1,), np.float32),
            spaces.Discrete(self._roads),
        )
        super().__init__(num_envs, (group,), ("tolls", "right", "played"))
        # The toll and the road of each cart, `[N, A]`.
        self.tolls = np.zeros((num_envs, num_agents))
        self.right = np.zeros((num_envs, num_agents), np.int64)
        self.played = np.zeros(num_envs, np.int64)

    def _begin(self, slots: np.ndarray) -> None:
        num_agents = self.tolls.shape[1]
        drawn = self._streams.uniform(slots, 2 * num_agents)
        self.tolls[slots] = drawn[:, :num_agents]
        self.right[slots] = drawn[:, num_agents:] * self._roads
        self.played[slots] = 0

    def _advance(self, actions: list[np.ndarray], playing: np.ndarray) -> Outcome:
        share = (actions[0] == self.right).mean(1, keepdims=True)
        rewards = np.square(share) - self._toll * self.tolls.mean(1, keepdims=True)
        everywhere = np.ones(self.num_envs, bool)
        self.right[:] = self._streams.uniform(everywhere, self.right.shape[1]) * self._roads
        self.played += 1
        truncated = (self.played >= self._legs)[:, None]
        return Outcome(rewards, np.zeros_like(truncated), truncated)

    def _observe(self) -> list[Any]:
        roads = np.eye(self._roads, dtype=np.float32)[self.right]  # [N, A, K]
        views = np.concatenate((roads, self.tolls[..., None].astype(np.float32)), 2)
        return [views.reshape(-1, views.shape[2])]
