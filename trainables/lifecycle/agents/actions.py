"""Actions for agents of several policies: who acts for whom, and their results together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import all_policies
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError
from trainables.core.policy.calls.compute_actions import Computed, keyed_actions
from trainables.lifecycle.policies import PolicySet


def actions(
    algorithm: Any,
    timestep: int | None,
    observations: dict[Any, Any],
    states: Any,
    options: dict[str, Any],
) -> Any:
    """Return actions by agent; see `Algorithm.compute_actions`."""
    dealt = dealt_agents(algorithm.config, observations, algorithm.policies)
    results = {}
    for policy_id, agents in dealt.items():
        policy = algorithm.policies[policy_id]
        with PolicySet(algorithm).exploring_at(policy, timestep):
            results[policy_id] = keyed_actions(
                policy,
                {agent: observations[agent] for agent in agents},
                only(states, agents),
                **{name: only(value, agents) for name, value in options.items()},
            )
    return joined_actions(results, observations)


def dealt_agents(
    config: AlgorithmConfig, agents: Iterable[Any], able: Collection[str]
) -> dict[str, list[Any]]:
    """Return the agents by the policy that acts for them, in an episode of number 0.

    Args:
        config: The algorithm's config.
        agents: Their ids.
        able: The ids of the policies with networks.

    Raises:
        ConfigError: if an agent has no policy, or one that is written by hand.
    """
    mapping = PolicyMapping(config.policy_mapping_fn, all_policies(config), config.seed)
    episode = AgentsEpisode(0, 0)
    dealt: dict[str, list[Any]] = {}
    for agent in agents:
        policy_id = mapping(agent, episode)
        if policy_id not in able:
            raise ConfigError(
                f"the agent {agent!r} has the policy {policy_id!r}, which is written by hand: "
                f"leave it out, or give policy_id; allowed: {', '.join(able)}"
            )
        episode.policy_of[agent] = policy_id
        dealt.setdefault(policy_id, []).append(agent)
    return dealt


def only(values: Any, agents: Collection[Any]) -> Any:
    """Return what of values by agent is of some agents; other values as they are.

    Raises:
        ConfigError: if it is a batch, whose rows are of nobody.
    """
    if isinstance(values, Mapping):
        return {agent: values[agent] for agent in agents if agent in values} or None
    if values is None or isinstance(values, (bool, int, float, str)):
        return values
    raise ConfigError(
        f"{type(values).__name__} is not allowed with observations by agent of several policies; "
        "allowed: dicts by agent"
    )


def joined_actions(results: Mapping[str, Any], agents: Iterable[Any]) -> Any:
    """Return what policies gave for their agents, in order of the agents.

    Args:
        results: What `keyed_actions` returned, by policy id.
        agents: The ids of all agents.

    Returns:
        Actions by agent; if any policy gave states, these by agent, too, and what else there is by
        policy id.
    """
    actions: dict[Any, Any] = {}
    states: dict[Any, Any] = {}
    extra: dict[str, Any] = {}
    for policy_id, result in results.items():
        if isinstance(result, Computed):
            states |= result.state
            extra[policy_id] = result.extra
        actions |= result.actions if isinstance(result, Computed) else result
    ordered = {agent: actions[agent] for agent in agents}
    if not extra:
        return ordered
    return Computed(ordered, {agent: states.get(agent, {}) for agent in ordered}, extra)
