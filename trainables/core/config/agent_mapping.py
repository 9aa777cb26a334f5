"""Which policy acts for an agent, and which policies are trained: settings as functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from trainables.core.callables import resolve_callable
from trainables.core.config.policy_specs import DEFAULT_POLICY
from trainables.core.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
OTHERS = "*"
"""The key of a mapping for all agents that no other key is for."""


class PolicyMapping:
    """Tells which policy acts for an agent: what `policy_mapping_fn` stands for.

    Without one, an agent has the policy of its own id, else the default policy, else the only one.

    Args:
        given: The setting: a function, `module:name` of one, policies by agents' ids or patterns
            of them, or None.
        policies: The ids of all policies, which may change later.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, given: Any, policies: Collection[str]):
        self._policies = policies
        self._by_agent: Mapping[str, str] | None = None
        self._function: Callable[..., Any] | None = None
        if isinstance(given, Mapping):
            self._by_agent = given
        elif given is not None:
            self._function = _function("policy_mapping_fn", given)

    def __call__(self, agent_id: Any, episode: Any = None, worker: Any = None, **more: Any) -> str:
        """Return the id of an agent's policy.

        Args:
            agent_id: The agent.
            episode: Its episode, for a function of one's own; None: there is none yet.
            worker: The env runner that steps it, for a function of one's own.
            more: What else a function of one's own is called with.

        Raises:
            ConfigError: if it has none, or one that does not exist.
        """
        if self._function is not None:
            found = _call(self._function, agent_id, episode, {"worker": worker, **more})
        elif self._by_agent is not None:
            found = _match(str(agent_id), self._by_agent)
        else:
            found = self._by_id(str(agent_id))
        if found not in self._policies:
            told = "no policy" if found is None else f"the policy {found!r}, which does not exist"
            raise ConfigError(
                f"policy_mapping_fn: the agent {agent_id!r} has {told}; policies: "
                f"{', '.join(self._policies)}"
            )
        return str(found)

    def _by_id(self, agent_id: str) -> str | None:
        for policy_id in (agent_id, DEFAULT_POLICY):
            if policy_id in self._policies:
                return policy_id
        return next(iter(self._policies)) if len(self._policies) == 1 else None


class PoliciesToTrain:
    """Tells whether a policy is trained: what `policies_to_train` stands for.

    Args:
        given: The setting: ids, a function, `module:name` of one, or None: all that learn.
        fixed: The ids of policies written by hand, which are never trained.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, given: Any, fixed: Collection[str]):
        self._fixed = fixed
        self._ids = given if isinstance(given, list) else None
        self._function: Callable[..., Any] | None = None
        if self._ids is None and given is not None:
            self._function = _function("policies_to_train", given)

    def __call__(self, policy_id: str, batch: Any = None) -> bool:
        """Tell whether a policy is trained on a batch; without one, whether it may ever be."""
        if policy_id in self._fixed:
            return False
        if self._function is not None:
            return bool(self._function(policy_id, batch))
        return self._ids is None or policy_id in self._ids


def _function(setting: str, given: Any) -> Callable[..., Any]:
    """Return the function that a setting gives; its name is imported.

    Raises:
        ConfigError: if there is none of the name.
    """
    found: Callable[..., Any] = resolve_callable(given) if isinstance(given, str) else given
    if not callable(found):
        raise ConfigError(f"{setting} = {given!r} is not allowed; allowed: a function")
    return found


def _match(agent_id: str, by_agent: Mapping[str, str]) -> str | None:
    """Return the value of an agent's own key, of the first pattern that fits, or of all others."""
    if agent_id in by_agent:
        return by_agent[agent_id]
    patterns = [pattern for pattern in by_agent if pattern != OTHERS]
    for pattern in (*patterns, OTHERS):
        if pattern in by_agent and fnmatchcase(agent_id, pattern):
            return by_agent[pattern]
    return None


def _call(function: Callable[..., Any], agent_id: Any, episode: Any, more: dict[str, Any]) -> Any:
    """Call a mapping function with as much as it takes: `f(agent_id)` does, too."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a built-in
        return function(agent_id)
    kinds = {parameter.kind for parameter in parameters}
    positional = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    takes_episode = len(positional) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    arguments = [agent_id, episode] if takes_episode else [agent_id]
    rest = more if takes_episode else {"episode": episode, **more}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        later = {*positional[len(arguments) :]}
        later |= {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        rest = {name: value for name, value in rest.items() if name in later}
    return function(*arguments, **{n: v for n, v in rest.items() if n not in positional[:2]})
