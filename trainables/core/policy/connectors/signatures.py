"""What a callable given as a connector is, by its signature: a connector, or what makes some."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, NamedTuple

import gymnasium as gym

from trainables.core.errors import ConfigError

_MODULE_TO_ENV, _LEARNER = "module_to_env_connector", "learner_connector"

# What a connector of each setting is called with.
_TAKES = {
    "env_to_module_connector": ("observations",),
    _MODULE_TO_ENV: ("actions",),
    _LEARNER: ("rollout", "policy"),
}
# What a function that makes connectors is called with, in words.
_FACTORIES = {
    "env_to_module_connector": "(env)",
    _MODULE_TO_ENV: "(env) or (env, rl_module)",
    _LEARNER: "(observation_space, action_space)",
}
_ENV_NAMES = {"env", "environment", "vector_env", "gym_env"}
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class EnvSpaces(NamedTuple):
    """What a factory gets as `env`: a policy has no environment, but knows its spaces."""

    observation_space: gym.Space
    action_space: gym.Space


class Signature:
    """The parameters of a callable that is given as a connector, or that makes one.

    The reference's callables make connectors: of `env`, of `env` and the module, or (for learners)
    of two spaces. Here a connector itself may be given, too, and both take one or two arguments. So
    names decide: the first parameter of what makes connectors is called `env`, or names an
    observation space. Two arguments before an environment can only be `env` and the module.

    Args:
        setting: It is given for.
        found: The callable.
        options: Names of parameters that are given by keyword.

    Attributes:
        makes_connectors: Whether it is called once, and what it returns are the connectors.
        takes_module: Whether it makes them of the module, too.
    """

    def __init__(self, setting: str, found: Any, options: Collection[str] = ()):
        self._setting, self._takes = setting, _TAKES[setting]
        self._parameters = _parameters(found, options)
        self.makes_connectors = self.takes_module = False
        if not self._parameters:
            return
        first, num_needed = self._parameters[0].name.strip("_"), len(self._needed)
        if isinstance(found, type) and not num_needed:
            return  # it has defaults: an object of it is the connector
        if setting == _LEARNER:
            self.makes_connectors = "obs" in first or "space" in first
            return
        self.makes_connectors = first in _ENV_NAMES
        if setting == _MODULE_TO_ENV and num_needed == 2:
            self.takes_module = self.makes_connectors or not isinstance(found, type)

    @property
    def _needed(self) -> list[str]:
        """Names of the parameters without a default."""
        given = [p for p in self._parameters or () if p.kind is not p.VAR_POSITIONAL]
        return [p.name for p in given if p.default is p.empty]

    def factory_arguments(self, name: str, spaces: EnvSpaces) -> tuple[Any, ...]:
        """Return what the factory is called with.

        Raises:
            ConfigError: if it needs something else.
        """
        arguments: tuple[Any, ...] = tuple(spaces) if self._setting == _LEARNER else (spaces,)
        if len(self._needed) > len(arguments):
            raise self._wrong(name)
        return arguments

    def check_connector(self, name: str) -> None:
        """Check that what is to be a connector can be called as one.

        Raises:
            ConfigError: saying what it is to take.
        """
        if self._parameters is None:  # it does not say
            return
        kinds = [parameter.kind for parameter in self._parameters]
        most = kinds.count(_BY_POSITION[0]) + kinds.count(_BY_POSITION[1])
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            most = len(self._takes)
        if not len(self._needed) <= len(self._takes) <= most:
            raise self._wrong(name)

    def _wrong(self, name: str) -> ConfigError:
        own = ", ".join(parameter.name for parameter in self._parameters or ())
        return ConfigError(
            f"{self._setting}: {name} takes ({own}); a connector takes ({', '.join(self._takes)}), "
            f"and a function that makes connectors takes {_FACTORIES[self._setting]}"
        )


def made_connectors(setting: str, result: Any) -> str:
    """What to add where a connector gave a function: it was meant to make connectors, it seems."""
    if not callable(result):
        return ""
    return f" (a function that makes connectors takes {_FACTORIES[setting]}, by these names)"


def _parameters(found: Any, options: Collection[str]) -> list[inspect.Parameter] | None:
    """Return what is to be given, not by keyword already; None if a callable does not say."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # e.g. torch's own functions
        return None
    return [
        p
        for p in parameters
        if p.name not in options
        and (p.kind in (*_BY_POSITION, p.VAR_POSITIONAL) or _must_be_named(p))
    ]


def _must_be_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
