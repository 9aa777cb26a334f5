"""`env_config={"max_episode_steps": N}`: a time limit for environments of every kind.

Gymnasium limits what is made by an id. Of everything else the slot is limited here, by the same
wrapper: the last step is truncated, so values bootstrap from it.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import TimeLimit

from trainables.core.errors import ConfigError

LIMIT = "max_episode_steps"


def take_limit(
    creator: EnvSpec | Callable[..., Any], env_config: dict[str, Any], *, by_keyword: bool
) -> int | None:
    """Return the limit that a slot's environment needs around it; None if it needs none.

    A class that takes keyword arguments, and has no parameter for the limit, does not get it: it
    is taken out of `env_config`. One that has limits itself, in steps of its own.

    Args:
        creator: What makes the environment.
        env_config: What it is made with.
        by_keyword: Whether that are its keyword arguments; else it gets the dict, limit and all.

    Raises:
        ConfigError: if the limit is no number of steps.
    """
    if isinstance(creator, EnvSpec) or LIMIT not in env_config:
        return None
    if by_keyword and LIMIT in inspect.signature(creator).parameters:
        return None
    steps = env_config[LIMIT]
    if by_keyword and not _takes_any(creator):
        del env_config[LIMIT]
    check_limit(steps)
    return steps


def check_limit(steps: Any) -> None:
    """Refuse what is no number of steps. A native vector environment would take it as it is.

    Raises:
        ConfigError: saying what is allowed.
    """
    if steps is not None and not (type(steps) is int and steps >= 1):
        raise ConfigError(
            f"env_config: {LIMIT} = {steps!r} is not allowed; allowed: int, >= 1, or None"
        )


def made_by(function: Callable[[Any], Any], env_config: dict[str, Any]) -> Any:
    """Return what a function makes of `env_config`.

    One that hands all of it on as keywords may do so to a class that takes no limit: it is called
    again without.
    """
    try:
        return function(env_config)
    except TypeError as error:
        if f"unexpected keyword argument {LIMIT!r}" not in str(error):
            raise
    env_config.pop(LIMIT, None)
    return function(env_config)


def limited(env: gym.Env, steps: int | None) -> gym.Env:
    """Return an environment with a time limit, unless it has one of its own that is no longer."""
    if steps is None or _has_limit(env, steps):
        return env
    return TimeLimit(env, steps)


def check_vector_class(vector_class: type, env_config: dict[str, Any], name: str) -> None:
    """Refuse a limit for a class of vector environments that does not take one.

    Its slots cannot be limited from outside: they could not be reset alone.

    Raises:
        ConfigError: naming the environment.
    """
    takes = LIMIT in inspect.signature(vector_class).parameters or _takes_any(vector_class)
    if env_config.get(LIMIT) is not None and not takes:
        raise ConfigError(
            f"env_config: {LIMIT} is not possible with env {name!r}: it is one vector environment, "
            f"which must limit its episodes itself; give it a parameter {LIMIT}"
        )


def _takes_any(creator: Callable[..., Any]) -> bool:
    parameters = inspect.signature(creator).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _has_limit(env: gym.Env, steps: int) -> bool:
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, TimeLimit) and layer._max_episode_steps <= steps:
            return True
        layer = layer.env
    return False
