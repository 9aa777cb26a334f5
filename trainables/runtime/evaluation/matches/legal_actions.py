"""`LegalActions`: sees that an opponent written by hand does what it may."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsStep
from trainables.runtime.evaluation.agents_watch import AgentsWatch

_MOST_SHOWN = 40


class LegalActions(AgentsWatch):
    """Refuses a discrete action that its mask does not allow. Other actions have no masks here.

    Args:
        policy_ids: Whose actions are looked at.
        name: What errors call the opponent.
        mask_key: The key of a Dict observation that says which actions are allowed.
    """

    def __init__(self, policy_ids: Collection[str], name: str, mask_key: str):
        self._policy_ids, self._name, self._mask_key = policy_ids, name, mask_key
        self._groups: Sequence[AgentGroup] = ()

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        self._groups = groups

    def act(
        self,
        shown: AgentsStep,
        actions: list[Any],
        episodes: Sequence[AgentsEpisode],
        runs: np.ndarray,
    ) -> None:
        """Look at actions.

        Raises:
            ConfigError: naming the agent, the action and what is allowed.
        """
        for group, rows, done in zip(self._groups, shown.groups, actions, strict=True):
            mask = rows.obs.get(self._mask_key) if isinstance(rows.obs, dict) else None
            if mask is None or not isinstance(group.action_space, gym.spaces.Discrete):
                continue
            asked = np.flatnonzero(rows.acts)
            places = np.asarray(done)[asked] - group.action_space.start
            allowed = np.asarray(mask).reshape(len(rows.acts), -1) != 0
            refused = ~allowed[asked, places] & allowed[asked].any(axis=1)
            for row in asked[refused].tolist():
                slot, place = divmod(row, len(group.agents))
                agent, episode = group.agents[place], episodes[slot]
                if not runs[slot] or episode.policy_of[agent] not in self._policy_ids:
                    continue
                legal = np.flatnonzero(allowed[row]) + group.action_space.start
                raise ConfigError(
                    f"opponent {self._name}: the action {done[row]} of the agent {agent!r} in step "
                    f"{episode.length} of episode {episode.episode_id} is not allowed; allowed: "
                    f"{shown_numbers(legal.tolist())}"
                )


def shown_numbers(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order as a text: `0-3, 5`; of many the first ones."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    parts = ["-".join(map(str, run)) for run in runs]
    more = ", …" if len(parts) > _MOST_SHOWN else ""
    return ", ".join(parts[:_MOST_SHOWN]) + more
