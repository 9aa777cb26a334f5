"""What an opponent may be, and the policy class that stands for one written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.agents.policy_specs import BUILT_IN
from trainables.core.errors import ConfigError
from trainables.core.policy.fixed_policy import FixedPolicy
from trainables.core.policy.policy import Policy

Opponent = Policy | str | type | Callable[..., Any]

_ALLOWED = (
    "a Policy, 'random', 'look_ahead', or a class with compute_actions (see FixedPolicy), a "
    "function (observations, rng, masks) -> actions of a batch of agents, or 'module:name' of one"
)


def opponent_name(opponent: Opponent) -> str:
    """Return what errors and tables call an opponent."""
    if isinstance(opponent, str):
        return opponent
    return "policy" if isinstance(opponent, Policy) else callable_name(opponent)


def opponent_class(opponent: Any) -> str | type:
    """Return what a `PolicySpec` names as the `policy_class` of an opponent written by hand.

    Args:
        opponent: See `play_matches`. Code that it names is imported.

    Raises:
        ConfigError: if it is nothing that can act, naming what is allowed.
    """
    if isinstance(opponent, str) and opponent in BUILT_IN:
        return opponent
    found = opponent
    if isinstance(opponent, str):
        if ":" not in opponent:
            raise ConfigError(f"opponent {opponent!r} is not allowed; allowed: {_ALLOWED}")
        try:
            found = resolve_callable(opponent)
        except ConfigError as error:
            raise ConfigError(f"opponent: {error}; allowed: {_ALLOWED}") from None
    if isinstance(found, type) and callable(getattr(found, "compute_actions", None)):
        return found
    if isinstance(found, type) or not callable(found):
        raise ConfigError(f"opponent {opponent!r} is not allowed; allowed: {_ALLOWED}")
    return _class_of(found)


def _class_of(function: Callable[..., Any]) -> type[FixedPolicy]:
    """Return the class of a policy that asks a function."""

    class OfFunction(FixedPolicy):
        def compute_actions(
            self, observations: Any, rng: np.random.Generator, masks: np.ndarray | None = None
        ) -> Any:
            return function(observations, rng, masks)

    # Errors say who acts by its class.
    OfFunction.__module__, _, OfFunction.__qualname__ = callable_name(function).partition(":")
    return OfFunction
