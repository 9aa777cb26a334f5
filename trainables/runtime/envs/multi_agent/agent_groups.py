"""Agents with equal spaces are a group: read from an environment with several agents.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import gymnasium as gym

from trainables.core.data.spaces import leaf_spaces
from trainables.core.errors import ConfigError
from trainables.runtime.envs.multi_agent.forms import RESERVED
from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

_METHODS = ("get_observation_space", "get_action_space", "reset", "step")


def possible_agents(env: Any, name: str) -> list[Hashable]:
    """Return the ids of all agents that may ever take part.

    Raises:
        ConfigError: if it is no environment with several agents, or does not say who they are.
    """
    if not all(callable(getattr(env, method, None)) for method in _METHODS):
        raise ConfigError(f"{name} is a {type(env).__name__}, not a MultiAgentEnv")
    given = getattr(env, "possible_agents", None) or getattr(env, "agents", None) or ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(
            f"{name}: possible_agents is {given!r} ({type(given).__name__}); allowed: a list of "
            "agents' ids"
        )
    agents = list(given)
    if not agents:
        raise ConfigError(
            f"{name} has no possible_agents: set this attribute to the list of all agents that may "
            "ever take part"
        )
    wrong = [agent for agent in agents if agent in RESERVED or agents.count(agent) > 1]
    if wrong:
        raise ConfigError(
            f"{name}: possible_agents has {wrong[0]!r}; allowed: each id once, none of {RESERVED}"
        )
    return agents


def groups_of(env: Any, name: str) -> tuple[AgentGroup, ...]:
    """Return all agents of an environment by equal spaces, in order of `possible_agents`.

    Raises:
        ConfigError: if agents are not known, or their spaces are not or not supported.
    """
    groups: list[tuple[list[Hashable], gym.Space, gym.Space]] = []
    for agent in possible_agents(env, name):
        seen, done = _space(env, name, agent, "observation"), _space(env, name, agent, "action")
        for members, observation_space, action_space in groups:
            if seen == observation_space and done == action_space:
                members.append(agent)
                break
        else:
            groups.append(([agent], seen, done))
    return tuple(AgentGroup(tuple(members), seen, done) for members, seen, done in groups)


def check_alike(groups: tuple[AgentGroup, ...], first: tuple[AgentGroup, ...], name: str) -> None:
    """Raise `ConfigError` if an environment has other agents or spaces than the first one made."""
    if groups != first:
        raise ConfigError(
            f"{name} has the agents and spaces {list(groups)}; allowed: those of the environment "
            f"that was made first, {list(first)}"
        )


def _space(env: Any, name: str, agent: Hashable, kind: str) -> gym.Space:
    try:
        space = getattr(env, f"get_{kind}_space")(agent)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{name}: get_{kind}_space({agent!r}) raised {type(error).__name__}: {error}; it must "
            "return a gymnasium space"
        ) from error
    if not isinstance(space, gym.Space):
        raise ConfigError(
            f"{name}: the {kind} space of agent {agent!r} is {space!r}, not a gymnasium space"
        )
    leaf_spaces(space, f"{name}: the {kind} space of agent {agent!r}")
    return space
