"""The members of the reference's episodes that are asked for by agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainables.core.config.config import DEFAULT_MODULE_ID

AGENT = "agent0"
"""The reference's name of the agent of an environment that has one."""

_IN_USER_DATA = "is not kept: note it in on_episode_step, in episode.user_data"
_CONNECTOR = "does not exist: what happens to rollouts before learning is a learner_connector"
# Members that are not here, with what to use.
_INSTEAD = {
    "prev_action_for": _IN_USER_DATA,
    "prev_reward_for": _IN_USER_DATA,
    "rnn_state_for": "does not exist: rollouts hold the states that networks learn from",
    "last_extra_action_outs_for": "does not exist: policies['default_policy'].compute_single_action"
    "(episode.last_observation, full_fetch=True) computes it",
    "last_done_for": "does not exist: use is_terminated and is_truncated",
    "policy_mapping_fn": "does not exist: there is one policy; policy_for() names it",
    "media": "does not exist: record_env=True writes videos",
    "batch_builder": _CONNECTOR,
    "new_batch_builder": _CONNECTOR,
    "add_extra_batch": _CONNECTOR,
    "soft_reset": "does not exist: environments truncate episodes",
}


class EpisodeByAgent:
    """Part of `Episode`: what the reference asks by agent. There is one as yet, `AGENT`.

    Attributes:
        worker: What samples or evaluates it; None where a policy is evaluated by itself.
    """

    env_index: int
    worker: Any
    if TYPE_CHECKING:

        @property
        def total_reward(self) -> float: ...
        @property
        def last_observation(self) -> Any: ...
        @property
        def last_action(self) -> Any: ...
        @property
        def last_reward(self) -> float: ...
        @property
        def last_info(self) -> dict[str, Any]: ...

    @property
    def env_id(self) -> int:
        """Its slot, another name of `env_index`."""
        return self.env_index

    @property
    def policy_map(self) -> dict[str, Any]:
        """The policies that act, by id."""
        return {} if self.worker is None else dict(self.worker.policy_map)

    @property
    def agent_rewards(self) -> dict[tuple[str, str], float]:
        """Sums of rewards so far, by agent and policy."""
        return {(AGENT, DEFAULT_MODULE_ID): self.total_reward}

    def get_agents(self) -> list[str]:
        """Return the agents of the episode."""
        return [AGENT]

    def policy_for(self, agent_id: Any = AGENT) -> str:
        """Return the id of the policy that acts for an agent."""
        _check_agent(agent_id)
        return DEFAULT_MODULE_ID

    def last_observation_for(self, agent_id: Any = AGENT) -> Any:
        """As the environment gave it, not preprocessed; a copy."""
        _check_agent(agent_id)
        return self.last_observation

    last_raw_obs_for = last_observation_for

    def last_action_for(self, agent_id: Any = AGENT) -> Any:
        """As the environment was given it; None before the first step."""
        _check_agent(agent_id)
        return self.last_action

    def last_reward_for(self, agent_id: Any = AGENT) -> float:
        """Of the last step; 0 before the first one."""
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
