"""`Episode`: an episode as the hooks of callbacks see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trainables.core.data.episode_base import INSTEAD, EpisodeBase, row_of

if TYPE_CHECKING:
    from trainables.core.policy.policy import Policy

AGENT = "agent0"
"""The reference's name of the agent of an environment that has one."""


@dataclass(frozen=True)
class SlotRows:
    """What all slots' last row gave, batched as the vector environment does; others' is stale.

    Attributes:
        obs: The observations.
        actions: The batches in which the slots' actions are, one of each slot.
        rewards: The rewards, `[N]`.
        terminated: Where the environment has ended an episode, `[N]`.
        truncated: Where an episode was cut off, `[N]`.
        infos: The environment's `info`, batched as gymnasium does.
        returns: Sums of the episodes' rewards so far, `[N]`.
        lengths: Steps of the episodes so far, `[N]`.
    """

    obs: Any
    actions: list[Any]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]
    returns: np.ndarray
    lengths: np.ndarray


@dataclass(eq=False)
class Episode(EpisodeBase):
    """An episode of one agent as hooks see it: valid within the hook, but for the three dicts.

    What the reference asks by agent is there, too: there is one, `AGENT`. Of several agents it is
    an `AgentsEpisode`.

    Attributes:
        is_evaluation: Whether it is one of an evaluation.
        policy_map: The policies that act, by module id.
        module_id: The id of the policy that acts in it.
    """

    _instead: ClassVar[Mapping[str, str]] = {
        **INSTEAD,
        "last_extra_action_outs_for": "does not exist: policies[episode.module_id]."
        "compute_single_action(episode.last_observation, full_fetch=True) computes it",
        "policy_mapping_fn": "does not exist: module_id, or policy_for(), names the policy that "
        "acts",
    }

    _: KW_ONLY
    is_evaluation: bool
    _now: SlotRows
    policy_map: dict[str, Policy]
    module_id: str

    @property
    def length(self) -> int:
        return int(self._now.lengths[self.env_index])

    @property
    def total_reward(self) -> float:
        return float(self._now.returns[self.env_index])

    @property
    def last_observation(self) -> Any:
        """The observation as the environment gave it; a copy."""
        return row_of(self._now.obs, self.env_index)

    @property
    def last_action(self) -> Any:
        """The action as the environment was given it, a copy; None before the first step."""
        if not self.length:
            return None
        return row_of(self._now.actions[self.env_index], self.env_index)

    @property
    def last_reward(self) -> float:
        """The reward of the last step; 0 before the first one."""
        return float(self._now.rewards[self.env_index]) if self.length else 0.0

    @property
    def last_info(self) -> dict[str, Any]:
        """The environment's `info`, of the last step or of the reset."""
        return _info_of_slot(self._now.infos, self.env_index)

    @property
    def is_terminated(self) -> bool:
        return bool(self._now.terminated[self.env_index])

    @property
    def is_truncated(self) -> bool:
        return bool(self._now.truncated[self.env_index])

    # ------------------------------------------------------------------ by agent

    @property
    def agent_rewards(self) -> dict[tuple[str, str], float]:
        """Sums of rewards so far, by agent and policy."""
        return {(AGENT, self.module_id): self.total_reward}

    def get_agents(self) -> list[str]:
        """Return the agents of the episode."""
        return [AGENT]

    def policy_for(self, agent_id: Any = AGENT) -> str:
        """Return the id of the policy that acts for an agent."""
        _check_agent(agent_id)
        return self.module_id

    def last_observation_for(self, agent_id: Any = AGENT) -> Any:
        """Return the observation as the environment gave it, not preprocessed; a copy."""
        _check_agent(agent_id)
        return self.last_observation

    last_raw_obs_for = last_observation_for

    def last_action_for(self, agent_id: Any = AGENT) -> Any:
        """Return the action as the environment was given it; None before the first step."""
        _check_agent(agent_id)
        return self.last_action

    def last_reward_for(self, agent_id: Any = AGENT) -> float:
        """Return the reward of the last step; 0 before the first one."""
        _check_agent(agent_id)
        return self.last_reward

    def last_info_for(self, agent_id: Any = AGENT) -> dict[str, Any]:
        """Return the environment's `info`, of the last step or of the reset."""
        _check_agent(agent_id)
        return self.last_info


def _check_agent(agent_id: Any) -> None:
    """Raise `KeyError` for an agent that there is not."""
    if agent_id != AGENT:
        raise KeyError(f"no agent {agent_id!r}; there are {[AGENT]}")


def _info_of_slot(infos: dict[str, Any], slot: int) -> dict[str, Any]:
    """Return a slot's info: gymnasium batches them, and says under `_key` which slots have one."""
    found = {}
    for key, values in infos.items():
        has = infos.get(f"_{key}")
        if has is None or not has[slot]:
            continue
        found[key] = _info_of_slot(values, slot) if isinstance(values, dict) else values[slot]
    return found
