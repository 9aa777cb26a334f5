"""Whether an environment has several agents: told by what it is, not by what it returns.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

from abc import ABC
from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from trainables.core.errors import ConfigError

_DICTS = "MultiAgentEnv"  # ours, and the reference's
_CLASSES = {_DICTS, "ParallelEnv", "AECEnv"}  # and PettingZoo's

PETTINGZOO = "pettingzoo:"
"""What the name of a game of PettingZoo begins with."""

NATIVE = (
    "multi_agent_cartpole",
    "multi_agent_grid_world",
    "matrix_game",
    "two_step_game",
    "tic_tac_toe",
    "connect_four",
    "convoy",
)
"""The names of this project's games for several agents."""


class AgentSlots(ABC):
    """Base of slots with several agents; see `AgentsVectorEnv`.

    Attributes:
        num_envs: Number of slots.
        groups: All agents that may ever take part, by equal spaces.
        num_restarts: How many environments were replaced.
    """

    num_envs: int
    groups: tuple[Any, ...]
    num_restarts: int = 0

    def close(self) -> None:  # noqa: B027  # not everything holds something
        """Free what the environments hold."""


AnyVectorEnv = VectorEnv | AgentSlots


def is_named_for_several(env: Any) -> bool:
    """Tell whether the setting `env` says by itself that there are several agents.

    Of a function, or a class of another library, only what it makes says it.
    """
    if isinstance(env, str):
        return env in NATIVE or env.startswith(PETTINGZOO)
    return isinstance(env, type) and any(kind.__name__ == _DICTS for kind in env.__mro__)


def has_several_agents(env: Any) -> bool:
    """Tell whether an environment is of a class for several agents."""
    return any(
        kind.__name__ in _CLASSES or kind.__module__.partition(".")[0] == "pettingzoo"
        for kind in _kinds(env)
    )


def speaks_in_dicts(env: Any) -> bool:
    """Tell whether it is of a class called `MultiAgentEnv`, also of another library."""
    return any(kind.__name__ == _DICTS for kind in _kinds(env))


def _kinds(env: Any) -> set[type]:
    return {kind for one in (env, getattr(env, "unwrapped", env)) for kind in type(one).__mro__}


def answers_for_several(reward: Any, terminated: Any) -> bool:
    """Tell whether a step was one of several agents: their rewards, or ends, by their ids."""
    return isinstance(reward, dict) or (isinstance(terminated, dict) and "__all__" in terminated)


def observes_for_several(space: Any, obs: Any) -> bool:
    """Tell whether it observed for several agents: an observation of the space for each id."""
    if not isinstance(obs, dict) or not obs or isinstance(space, spaces.Dict):
        return False
    return all(space.contains(part) for part in obs.values())


class SeveralAgents(ConfigError):
    """An environment has several agents, where one of one agent is wanted."""


def one_is_wanted(name: str) -> SeveralAgents:
    """Return the error for an environment of a class for several agents."""
    return SeveralAgents(
        f"env {name!r} has several agents, where one of one agent is wanted: a gymnasium.Env with "
        "one observation and one reward a step"
    )


def derive_it(name: str) -> ConfigError:
    """Return the error for one that answers for several agents, and is of no such class."""
    return ConfigError(
        f"env {name!r} gives observations, rewards or ends by agent; an environment with several "
        "agents derives from trainables.MultiAgentEnv"
    )
