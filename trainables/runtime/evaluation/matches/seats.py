"""Which agents a policy can act for, and whether an opponent can act for the others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name, make_slots
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup, AgentsVectorEnv
from trainables.runtime.sampling.agents.agent_lanes import mismatch


def groups_of(config: AlgorithmConfig) -> tuple[AgentGroup, ...]:
    """Return the agents of a config's environment, of which there are two or more.

    Raises:
        ConfigError: if there are not.
    """
    env = make_slots(config, config.env, config.env_config_for(training=False), 1)
    try:
        groups = env.groups if isinstance(env, AgentsVectorEnv) else ()
        if sum(len(group.agents) for group in groups) < 2:
            raise ConfigError(
                f"env {env_name(config.env)!r} has one agent, so that nobody can be its opponent; "
                "allowed: one of several agents"
            )
        return groups
    finally:
        env.close()


def checked_seats(
    groups: Sequence[AgentGroup], policy: Policy, asked: Sequence[Any] | None
) -> list[Hashable]:
    """Return the agents that a policy takes the seats of.

    Args:
        groups: All agents.
        policy: It.
        asked: Agents, as they are or as texts; None: all that it can act for.

    Raises:
        ConfigError: if there is no such agent, or the policy cannot act for it.
    """
    misfits = {
        agent: mismatch(
            (policy.observation_space, policy.action_space),
            (group.observation_space, group.action_space),
        )
        for group in groups
        for agent in group.agents
    }
    if asked is None:
        fitting = [agent for agent, problem in misfits.items() if problem is None]
        if not fitting:
            reasons = "; ".join(f"{agent}: {problem}" for agent, problem in misfits.items())
            raise ConfigError(f"the policy can act for no agent: {reasons}")
        return fitting
    by_text = {str(agent): agent for agent in misfits}
    found = []
    for seat in asked:
        agent = by_text.get(str(seat))
        if agent is None:
            raise ConfigError(f"seat {seat!r}: no such agent; allowed: {', '.join(by_text)}")
        if misfits[agent] is not None:
            raise ConfigError(f"seat {seat!r}: the policy cannot act for it: {misfits[agent]}")
        if agent in found:
            raise ConfigError(f"seat {seat!r} is given twice")
        found.append(agent)
    return found


def against(groups: Sequence[AgentGroup], seats: Sequence[Hashable]) -> list[AgentGroup]:
    """Return the groups with the agents that an opponent acts for.

    Args:
        groups: All agents.
        seats: The agents that the policy acts for, in turn.
    """
    others = [
        group._replace(agents=tuple(a for a in group.agents if any(seat != a for seat in seats)))
        for group in groups
    ]
    return [group for group in others if group.agents]


def check_opponent(groups: Sequence[AgentGroup], opponent: Policy, name: str) -> None:
    """See that a policy can act for agents.

    Args:
        groups: They.
        opponent: The policy.
        name: What errors call it.

    Raises:
        ConfigError: naming an agent that it cannot act for.
    """
    own = (opponent.observation_space, opponent.action_space)
    for group in groups:
        problem = mismatch(own, (group.observation_space, group.action_space))
        if problem is not None:
            raise ConfigError(
                f"opponent {name} cannot act for the agent {group.agents[0]!r}: {problem}"
            )
