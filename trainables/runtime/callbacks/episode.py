"""`Episode`: an episode as the hooks of callbacks see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.runtime.callbacks.custom_metrics import EpisodeMetrics

if TYPE_CHECKING:
    from trainables.core.policy.policy import Policy

AGENT = "agent0"
"""The reference's name of the agent of an environment that has one."""

_IN_USER_DATA = "is not kept: note it in on_episode_step, in episode.user_data"
_CONNECTOR = "does not exist: what happens to rollouts before learning is a learner_connector"
# Members that are not here, with what to use.
_INSTEAD = {
    "prev_action_for": _IN_USER_DATA,
    "prev_reward_for": _IN_USER_DATA,
    "rnn_state_for": "does not exist: rollouts hold the states that networks learn from",
    "last_extra_action_outs_for": "does not exist: policies[episode.module_id]."
    "compute_single_action(episode.last_observation, full_fetch=True) computes it",
    "last_done_for": "does not exist: use is_terminated and is_truncated",
    "policy_mapping_fn": "does not exist: module_id, or policy_for(), names the policy that acts",
    "media": "does not exist: record_env=True writes videos",
    "batch_builder": _CONNECTOR,
    "new_batch_builder": _CONNECTOR,
    "add_extra_batch": _CONNECTOR,
    "soft_reset": "does not exist: environments truncate episodes",
}


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
class Episode:
    """An episode as hooks see it: valid within the hook, but for the three dicts.

    What the reference asks by agent is there, too: there is one as yet, `AGENT`.

    Attributes:
        episode_id: Counts the episodes of an env runner, or of a part of an evaluation.
        env_index: The slot that it is in.
        is_evaluation: Whether it is one of an evaluation.
        policy_map: The policies that act, by module id.
        module_id: The id of the policy that acts in it.
        user_data: Lives as long as the episode, for whatever you put into it.
        worker: What samples or evaluates it; None where a policy is evaluated by itself.
        custom_metrics: Numbers that results tell the mean, minimum and maximum of, over episodes.
        hist_data: Lists of numbers that results tell the same of, over all of their values.
    """

    episode_id: int
    env_index: int
    is_evaluation: bool
    _now: SlotRows
    policy_map: dict[str, Policy]
    module_id: str
    worker: Any = None
    user_data: dict[Any, Any] = field(default_factory=dict)
    custom_metrics: EpisodeMetrics = field(default_factory=EpisodeMetrics)
    hist_data: dict[str, list[float]] = field(default_factory=dict)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """The newer name of `user_data`."""
        return self.user_data

    @property
    def length(self) -> int:
        """Steps so far."""
        return int(self._now.lengths[self.env_index])

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # also before the first step

    @property
    def total_reward(self) -> float:
        """Sum of the environment's rewards so far."""
        return float(self._now.returns[self.env_index])

    def get_return(self) -> float:
        """Return the sum of the environment's rewards so far."""
        return self.total_reward

    @property
    def last_observation(self) -> Any:
        """The observation as the environment gave it; a copy."""
        return _of_slot(self._now.obs, self.env_index)

    @property
    def last_action(self) -> Any:
        """The action as the environment was given it, a copy; None before the first step."""
        if not self.length:
            return None
        return _of_slot(self._now.actions[self.env_index], self.env_index)

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
        """Whether the environment has ended it."""
        return bool(self._now.terminated[self.env_index])

    @property
    def is_truncated(self) -> bool:
        """Whether it was cut off."""
        return bool(self._now.truncated[self.env_index])

    @property
    def is_done(self) -> bool:
        """Whether this was its last step."""
        return self.is_terminated or self.is_truncated

    # ------------------------------------------------------------------ by agent

    @property
    def env_id(self) -> int:
        """Another name of `env_index`."""
        return self.env_index

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

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say what to use instead of a member that is not here."""
            said = _INSTEAD.get(name, "does not exist")
            raise AttributeError(f"episode.{name} {said}")


def _check_agent(agent_id: Any) -> None:
    """Raise `KeyError` for an agent that there is not."""
    if agent_id != AGENT:
        raise KeyError(f"no agent {agent_id!r}; there are {[AGENT]}")


def _of_slot(batch: Any, slot: int) -> Any:
    if isinstance(batch, dict):
        return {key: _of_slot(part, slot) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_of_slot(part, slot) for part in batch)
    return np.array(batch[slot])[()]  # a number, not an array of no dimensions


def _info_of_slot(infos: dict[str, Any], slot: int) -> dict[str, Any]:
    """Return a slot's info: gymnasium batches them, and says under `_key` which slots have one."""
    found = {}
    for key, values in infos.items():
        has = infos.get(f"_{key}")
        if has is None or not has[slot]:
            continue
        found[key] = _info_of_slot(values, slot) if isinstance(values, dict) else values[slot]
    return found
