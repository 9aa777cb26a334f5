"""Which policy acts for an agent, and which policies are trained: settings as functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from trainables.core.callables import callable_name, resolve_function
from trainables.core.config.agents.line_ups import LineUps
from trainables.core.config.policies import DEFAULT_POLICY
from trainables.core.errors import ConfigError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MAPPING = "a function (agent_id, episode, worker, **kwargs) -> policy id, or 'module:name' of one"
_TO_TRAIN = "a function (policy_id, batch) -> bool, or 'module:name' of one"
OTHERS = "*"
"""The key of a mapping for all agents that no other key is for."""


class PolicyMapping:
    """Tells which policy acts for an agent: what `policy_mapping_fn` stands for.

    Without one, an agent has the policy of its own id, else the default policy, else the only one.

    Args:
        given: The setting: a function, `module:name` of one, policies by agents' ids or patterns
            of them, line-ups of these, or None.
        policies: The ids of all policies, which may change later.
        seed: Of draws of line-ups; None: 0.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, given: Any, policies: Collection[str], seed: int | None = None):
        self._policies = policies
        self._by_agent: Mapping[str, str] | None = None
        self._line_ups: LineUps | None = None
        self._function: Callable[..., Any] | None = None
        if isinstance(given, Mapping):
            self._by_agent = given
        elif isinstance(given, list):
            self._line_ups = LineUps(given, seed or 0)
        elif given is not None:
            self._function = resolve_function("policy_mapping_fn", given, _MAPPING)
            check_mapping_function(self._function)

    def __call__(self, agent_id: Any, episode: Any = None, worker: Any = None, **more: Any) -> str:
        """Return the id of an agent's policy.

        Args:
            agent_id: The agent.
            episode: Its episode, for a function of one's own; None: there is none yet.
            worker: The env runner that steps it, for a function of one's own.
            more: What else a function of one's own is called with.

        Raises:
            ConfigError: if it has none, or one that does not exist, or the function raises.
        """
        if self._function is not None:
            own, extra = self._function, {"worker": worker, **more}
            with _told("policy_mapping_fn", own, "agent", agent_id, self._policies):
                found = _call(own, agent_id, episode, extra)
        elif self._line_ups is not None:
            found = _match(str(agent_id), self._line_ups.of_episode(episode, worker))
        elif self._by_agent is not None:
            found = _match(str(agent_id), self._by_agent)
        else:
            found = self._by_id(str(agent_id))
        if not isinstance(found, str) or found not in self._policies:
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
        given: The setting: ids ([]: none is trained), a function, `module:name` of one, or None:
            all that learn.
        fixed: The ids of policies written by hand, which are never trained.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, given: Any, fixed: Collection[str]):
        self._fixed = fixed
        self._ids = given if isinstance(given, list) else None
        self._function: Callable[..., Any] | None = None
        if self._ids is None and given is not None:
            self._function = resolve_function("policies_to_train", given, _TO_TRAIN)
            check_to_train_function(self._function)

    def __call__(self, policy_id: str, batch: Any = None) -> bool:
        """Tell whether a policy is trained on a batch; without one, whether it may ever be.

        Raises:
            ConfigError: if the function raises, or answers with no bool.
        """
        if policy_id in self._fixed:
            return False
        if self._function is not None:
            return self._answer(self._function, policy_id, batch)
        return self._ids is None or policy_id in self._ids

    def _answer(self, function: Callable[..., Any], policy_id: str, batch: Any) -> bool:
        with _told("policies_to_train", function, "policy", policy_id, ("True", "False")):
            answer = function(policy_id, batch)
        if not isinstance(answer, (bool, np.bool_)):
            raise ConfigError(
                f"policies_to_train = {callable_name(function)} returned {answer!r} for the policy "
                f"{policy_id!r}; allowed: True or False"
            )
        return bool(answer)


@contextmanager
def _told(
    setting: str, function: Callable[..., Any], kind: str, whom: Any, answers: Collection[str]
) -> Iterator[None]:
    """Within it an error of a function of the user's is one that names the setting, and for whom.

    Raises:
        ConfigError: whose cause is the function's error.
    """
    try:
        yield
    except Exception as error:
        raise ConfigError(
            f"{setting} = {callable_name(function)} raised {type(error).__name__}: {error}, asked "
            f"for the {kind} {whom!r}; allowed answers: {', '.join(answers)}"
        ) from error


def check_mapping_function(function: Callable[..., Any]) -> None:
    """Check that a mapping function can be called as it will be; see `PolicyMapping`.

    Raises:
        ConfigError: if it takes no agent, or needs what it is not given.
    """
    signature = _signature(function)
    if signature is not None:
        positional, named = _arguments(signature, None, None, {"worker": None})
        _check_call("policy_mapping_fn", function, signature, positional, named, _MAPPING)


def check_to_train_function(function: Callable[..., Any]) -> None:
    """Check that a function takes a policy's id and a batch; see `PoliciesToTrain`.

    Raises:
        ConfigError: if it does not.
    """
    signature = _signature(function)
    if signature is not None:
        _check_call("policies_to_train", function, signature, [None, None], {}, _TO_TRAIN)


def _check_call(
    setting: str,
    function: Callable[..., Any],
    signature: inspect.Signature,
    positional: list[Any],
    named: dict[str, Any],
    form: str,
) -> None:
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        raise ConfigError(
            f"{setting} = {callable_name(function)} takes {signature}: {error}; allowed: {form}"
        ) from None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return what a function takes; None of a built-in one that does not say so."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


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
    signature = _signature(function)
    if signature is None:
        return function(agent_id)
    positional, named = _arguments(signature, agent_id, episode, more)
    return function(*positional, **named)


def _arguments(
    signature: inspect.Signature, agent_id: Any, episode: Any, more: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return what a mapping function of a signature is called with, by position and by name."""
    parameters = signature.parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    positional = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    takes_episode = len(positional) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    arguments = [agent_id, episode] if takes_episode else [agent_id]
    rest = more if takes_episode else {"episode": episode, **more}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        later = {*positional[len(arguments) :]}
        later |= {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        rest = {name: value for name, value in rest.items() if name in later}
    return arguments, {n: v for n, v in rest.items() if n not in positional[:2]}
