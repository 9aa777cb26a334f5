"""The forms of what an environment with several agents returns, and the error of wrong ones.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from trainables.runtime.envs.sub_environment import SubEnvironmentError

ALL = "__all__"  # in terminateds and truncateds: whether the episode is over for everyone
COMMON = "__common__"  # in infos: what belongs to no agent
GLOBAL_STATE = "global_state"  # there, where the environment was asked to tell its state
RESERVED = (ALL, COMMON)

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class MultiAgentApiError(SubEnvironmentError):
    """An environment does not keep to the API of `MultiAgentEnv`: a fresh one would not either."""


class AgentsResult(NamedTuple):
    """What `MultiAgentEnv.step` returned: dicts by agent."""

    obs: dict[Hashable, Any]
    rewards: dict[Hashable, Any]
    terminateds: dict[Hashable, Any]
    truncateds: dict[Hashable, Any]
    infos: dict[Hashable, Any]


def checked_reset(result: Any) -> tuple[dict[Hashable, Any], dict[Hashable, Any]]:
    """Return what a reset returned: observations and infos.

    Raises:
        MultiAgentApiError: if these are no two dicts, or nobody is observed.
    """
    if not (isinstance(result, tuple) and len(result) == 2 and _are_dicts(result)):
        raise MultiAgentApiError(
            f"reset returns {_shape_of(result)}, not (observations, infos): two dicts by agent"
        )
    if not result[0]:
        raise MultiAgentApiError(
            "reset observes no agent: the episode is over before it begins; reset must return the "
            "observation of at least one agent"
        )
    return result[0], result[1]


def checked_step(result: Any) -> AgentsResult:
    """Return what a step returned.

    Raises:
        MultiAgentApiError: if these are no five dicts, or one of `terminateds` and `truncateds`
            lacks "__all__".
    """
    if not (isinstance(result, tuple) and len(result) == 5 and _are_dicts(result)):
        raise MultiAgentApiError(
            f"step returns {_shape_of(result)}, not (observations, rewards, terminateds, "
            "truncateds, infos): five dicts by agent"
        )
    step = AgentsResult(*result)
    for name in ("terminateds", "truncateds"):
        if ALL not in getattr(step, name):
            raise MultiAgentApiError(
                f"step's {name} has no key {ALL!r}, which says whether the episode is over for all "
                f"agents; it has {list(getattr(step, name))}"
            )
    return step


def check_rewards(rewards: Mapping[Hashable, Any]) -> None:
    """Check that rewards are finite numbers.

    Raises:
        MultiAgentApiError: naming the agent whose reward is no number.
        ValueError: naming the agent whose reward is not finite.
    """
    for agent, reward in rewards.items():
        if type(reward) is float and math.isfinite(reward):  # most are
            continue
        is_array = isinstance(reward, np.ndarray) and reward.shape == ()
        if not isinstance(reward, _NUMBERS) and not (is_array and reward.dtype.kind in "biuf"):
            raise MultiAgentApiError(
                f"the reward of agent {agent!r} is {reward!r} ({type(reward).__name__}), not a "
                "finite number"
            )
        if not math.isfinite(reward):
            raise ValueError(f"the reward of agent {agent!r} is {reward}, not a finite number")


def is_set(flag: Any, what: str, agent: Hashable) -> bool:
    """Return a flag of `terminateds` or `truncateds`.

    Raises:
        MultiAgentApiError: naming the agent, if it is no bool.
    """
    if flag is True or flag is False:
        return flag
    if not isinstance(flag, np.bool_):
        raise MultiAgentApiError(
            f"step's {what}[{agent!r}] is {flag!r} ({type(flag).__name__}), not a bool"
        )
    return bool(flag)


def _are_dicts(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(part, dict) for part in parts)


def _shape_of(result: Any) -> str:
    if not isinstance(result, tuple):
        return f"a {type(result).__name__}"
    return f"({', '.join(type(part).__name__ for part in result)})"
