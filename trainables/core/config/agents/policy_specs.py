"""The forms in which `policies` gives what each of several policies is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym

from trainables.core.config.named_dicts import by_name, with_arguments
from trainables.core.config.policies import (
    DEFAULT_POLICY,
    SPEC_FIELDS,
    PolicySpec,
    check_policy_id,
    unknown_part,
)
from trainables.core.config.settings import CODE, Settings, is_search_domain, setting
from trainables.core.errors import ConfigError

RANDOM = "random"  # draws actions uniformly
BUILT_IN = {
    RANDOM: "trainables.core.policy.fixed_policy:RandomPolicy",
    "look_ahead": "trainables.runtime.league.look_ahead:LookAheadPolicy",
}
"""Policies written by hand that have a name, and where their classes are."""

_POLICY = ("trainables:Policy", "trainables.core.policy.policy:Policy")  # and where it is defined
_CLASSES = (
    "None or Policy, a policy that learns; 'random'; 'look_ahead'; or a policy written by hand: a "
    "class with compute_actions (see FixedPolicy), or 'module:name' of one"
)
_FORMS = (
    "a PolicySpec, a tuple (policy_class, observation_space, action_space, config), a dict of "
    "these, or None"
)
CheckConfig = Callable[[Any, str], dict[str, Any]]


def policy_specs(given: Any, check_config: CheckConfig) -> Any:
    """Return policies by id, in order; None for the one policy that there is without any.

    Args:
        given: What `policies` gives. A set is sorted by the ids; a search domain passes.
        check_config: Returns the checked settings of a policy that learns, of what is given, and of
            the name that errors have for it.

    Raises:
        ConfigError: naming the policy, its part, and what is allowed.
    """
    if given is None or is_search_domain(given):
        return given
    if isinstance(given, (set, frozenset)):
        given = sorted(given, key=str)
    if isinstance(given, (list, tuple)):
        if not given:
            raise ConfigError(
                f"policies = {given!r} names none; allowed: at least one id, or None for "
                f"{DEFAULT_POLICY} alone"
            )
        entries: list[tuple[Any, Any]] = [(policy_id, None) for policy_id in given]
    elif isinstance(given, Mapping):
        entries = list(given.items())
    else:
        raise ConfigError(
            f"policies = {given!r} is not allowed; allowed: a dict of policies by id ({_FORMS}), "
            "or a list or set of ids"
        )
    found: dict[str, Any] = {}
    for policy_id, spec in entries:
        check_policy_id(policy_id, "policies")
        if policy_id in found:
            raise ConfigError(f"policies: {policy_id!r} is given twice")
        found[policy_id] = _spec(policy_id, spec, check_config)
    is_plain = not found or (found == {DEFAULT_POLICY: PolicySpec()})
    return None if is_plain else found


def _spec(policy_id: str, given: Any, check_config: CheckConfig) -> Any:
    """Return the spec of one policy, of any form."""
    if is_search_domain(given):
        return given
    where = f"policies: {policy_id!r}"
    parts = _parts(given, where)
    kind, config = parts["policy_class"], parts["config"]
    if _is_policy(kind):
        kind = parts["policy_class"] = None
    _check_class(kind, where)
    for name in ("observation_space", "action_space"):
        space = parts[name]
        if not (space is None or isinstance(space, gym.Space) or is_search_domain(space)):
            raise ConfigError(f"{where}: {name} = {space!r} is not allowed; allowed: a gym.Space")
    if kind is None:
        parts["config"] = check_config(config, f"{where}: config")
    elif not is_search_domain(kind) and not is_search_domain(config):
        parts["config"] = _arguments(kind, config, f"{where}: config")
    return PolicySpec(**parts)


def _parts(given: Any, where: str) -> dict[str, Any]:
    """Return the four parts of a spec by name."""
    empty: dict[str, Any] = dict.fromkeys(SPEC_FIELDS)
    if given is None:
        return empty
    if isinstance(given, Mapping):
        for name in given:
            if name not in SPEC_FIELDS:
                raise ConfigError(unknown_part(where, name))
        return {**empty, **given}
    if isinstance(given, (tuple, list)) and len(given) == len(SPEC_FIELDS):
        return dict(zip(SPEC_FIELDS, given, strict=True))
    if not isinstance(given, type) and all(hasattr(given, name) for name in SPEC_FIELDS):
        return {name: getattr(given, name) for name in SPEC_FIELDS}  # the reference's own class
    raise ConfigError(f"{where} = {given!r} is not allowed; allowed: {_FORMS}")


def _check_class(kind: Any, where: str) -> None:
    """Check the form of a policy's class. Nothing is imported."""
    if isinstance(kind, str):
        fits = kind in BUILT_IN or ":" in kind
    elif isinstance(kind, type):
        acts = callable(getattr(kind, "compute_actions", None)) and not inspect.isabstract(kind)
        fits = acts and not _learns(kind)
    else:
        fits = kind is None or is_search_domain(kind)
    if not fits:
        raise ConfigError(f"{where}: policy_class = {kind!r} is not allowed; allowed: {_CLASSES}")


def _is_policy(kind: Any) -> bool:
    """Tell whether it is `Policy`, the class of all that learn, or its name."""
    name = f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) else kind
    return isinstance(name, str) and name in _POLICY


def _learns(kind: type) -> bool:
    """Tell whether a class is `Policy`, or a subclass of it."""
    return any(_is_policy(base) for base in kind.__mro__)


def _arguments(kind: Any, config: Any, where: str) -> dict[str, Any]:
    """Return what a policy written by hand is made with."""
    config = {} if config is None else config
    if not isinstance(config, Mapping) or not all(isinstance(name, str) for name in config):
        raise ConfigError(f"{where} = {config!r} is not allowed; allowed: a dict by name")
    if config and kind == RANDOM:
        raise ConfigError(f"{where} = {config!r} has no effect: a random policy has no settings")
    return dict(config)


@dataclass
class PolicySpecSettings(Settings):
    """The parts of a `PolicySpec` as settings, by which trust judges them."""

    what: ClassVar[str] = "part of a policy"

    policy_class: str | type | None = setting(
        None,
        "multi_agent",
        "class of a hand-written policy",
        harmless=lambda value: isinstance(value, str) and value in BUILT_IN,
        risk=CODE,
    )
    observation_space: gym.Space | None = setting(
        None, "multi_agent", "observation space of its agents", harmless=True
    )
    action_space: gym.Space | None = setting(
        None, "multi_agent", "action space of its agents", harmless=True
    )
    config: dict[str, Any] = setting(
        {}, "multi_agent", "settings that differ from those of the other policies"
    )


@functools.cache
def spec_settings(config_class: Any) -> type[Settings]:
    """Return what judges the policies of an algorithm, by id; see `core.trust`."""

    class OfAlgorithm(PolicySpecSettings):
        @classmethod
        def settings_inside(cls, name: str) -> type[Settings] | None:
            return with_arguments(config_class) if name == "config" else None

    return by_name(OfAlgorithm)
