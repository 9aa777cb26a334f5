"""`FixedLanes`: the agents that a policy written by hand acts for; nothing is recorded of them."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.stored import like
from trainables.core.policy.fixed_policy import FixedPolicy, RandomPolicy, actions_of
from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, GroupRows
from trainables.runtime.sampling.agents.group_arrays import leaves, write_rows
from trainables.runtime.sampling.module_slots import of_slots


class FixedLanes:
    """Acts for the agents of a fixed policy, as `Lanes` do for those of one that has networks.

    Args:
        policy: Acts.
        policy_id: Its id, for errors.
        action_space: What its agents do.
        agents: The agents of the group, `[G]`.
        group: The number of the group.
        num_rows: Rows of the group, R.
        mask_key: The key of a Dict observation that says which actions are allowed.
    """

    def __init__(
        self,
        policy: FixedPolicy,
        policy_id: str,
        action_space: gym.Space,
        agents: Sequence[Hashable],
        group: int,
        num_rows: int,
        mask_key: str,
    ):
        self.policy, self.group, self._mask_key = policy, group, mask_key
        self._policy_id, self._action_space = policy_id, action_space
        self._agents = agents
        # A class of one's own need not extend ours, and ours has no use for it.
        self._is_told = isinstance(policy, FixedPolicy) and type(policy) is not RandomPolicy
        self._is_mine = np.zeros(num_rows, bool)
        self._shown: GroupRows | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nobody to act for."""
        return not self._is_mine.any()

    def reset(self, rows: np.ndarray, seed: np.random.SeedSequence) -> None:
        """Begin anew with the agents of the given rows of the group, on a random stream."""
        self._is_mine[:] = False
        self._is_mine[rows] = True
        self._rng = np.random.default_rng(seed)

    def take_lanes(self, rows: np.ndarray) -> None:
        """Act for the agents of these rows, too."""
        self._is_mine[rows] = True

    def leave_lanes(self, rows: np.ndarray) -> None:
        """Act for the agents of these rows no more."""
        self._is_mine[rows] = False

    def show(self, rows: GroupRows) -> None:
        """Take note of what agents are shown."""
        self._shown = rows

    def observe(self, step: AgentsStep) -> None:
        """Take note of what a step of the environment has shown."""
        self._shown = step.groups[self.group]

    def act(self, group_actions: Any) -> Any:
        """Return the actions of a group, with those of the agents that are asked.

        Args:
            group_actions: A batch of the group, `[R, …]`, which is written to.
        """
        shown = self._shown
        assert shown is not None
        rows = np.flatnonzero(shown.acts & self._is_mine)
        if len(rows):
            obs = of_slots(shown.obs, rows)
            masks = obs.get(self._mask_key) if isinstance(obs, dict) else None
            if self._is_told:
                agents = self._agents
                self.policy.asked = [agents[place] for place in (rows % len(agents)).tolist()]
            actions = actions_of(
                self.policy,
                self._policy_id,
                self._action_space,
                obs,
                self._rng,
                masks,
                len(rows),
            )
            write_rows(group_actions, rows, actions)
        return group_actions

    def get_state(self) -> dict[str, Any]:
        """Return the random stream, whom the policy acts for, and what they are shown."""
        shown = self._shown
        assert shown is not None
        return {
            "is_mine": self._is_mine.copy(),
            "rng": self._rng.bit_generator.state,
            "acts": shown.acts.copy(),
            "obs": [leaf.copy() for leaf in leaves(shown.obs)],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s.

        Raises:
            ConfigError: if shapes are others.
        """
        shown = self._shown
        assert shown is not None  # of the reset before
        self._is_mine = like(self._is_mine, state["is_mine"], "is_mine")
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = state["rng"]
        obs = copy.deepcopy(shown.obs)
        for leaf, stored in zip(leaves(obs), state["obs"], strict=True):
            leaf[...] = like(leaf, stored, "obs")
        self._shown = replace(shown, obs=obs, acts=like(shown.acts, state["acts"], "acts"))
