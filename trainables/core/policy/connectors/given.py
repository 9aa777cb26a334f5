"""Connectors that users give in the config: functions, classes, factories, or names of these."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import gymnasium as gym

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.callbacks import check_connectors, entries
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
    """The argument `env` of a factory: a policy has no environment, but knows its spaces."""

    observation_space: gym.Space
    action_space: gym.Space


class Signature:
    """The parameters of a callable that is given as a connector, or that makes one.

    The reference's callables make connectors: of `env`, of `env` and the module, or (for learners)
    of two spaces. Here a connector itself may be given, too, and both take one or two arguments. So
    names decide: the first parameter of what makes connectors is called `env`, or names an
    observation space. Two arguments before an environment can only be `env` and the module.

    Args:
        setting: The name of the setting that it is given for.
        found: The callable.
        options: Names of parameters that are given by keyword.

    Attributes:
        makes_connectors: Whether it is called once and returns the connectors.
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
    """Return what an error adds where a connector gave a function: it may be a factory."""
    if not callable(result):
        return ""
    return f" (a function that makes connectors takes {_FACTORIES[setting]}, by these names)"


class Connector(NamedTuple):
    """A connector of the user's.

    Attributes:
        name: The connector's name in errors.
        call: The function that applies it.
        space: Tells the space that it makes of one, if it is a class with a method of that name.
        of_module: Makes the connectors that take its place, once there are networks; or None.
    """

    name: str
    call: Callable[..., Any]
    space: Callable[[gym.Space], gym.Space] | None
    of_module: Callable[[Any], list[Connector]] | None = None

    def apply(self, setting: str, *inputs: Any) -> Any:
        """Call it; an error of the user's code names the setting and the connector."""
        return _named(setting, self.name, self.call, *inputs)

    def space_of(self, setting: str, space: gym.Space) -> gym.Space:
        """Return what its `space` says.

        Raises:
            ConfigError: if that is no space.
        """
        assert self.space is not None
        made = _named(setting, f"{self.name}.space()", self.space, space)
        if not isinstance(made, gym.Space):
            raise ConfigError(
                f"{setting}: {self.name} space() gave {made!r}, which is no gymnasium space"
            )
        return made


def _named(setting: str, name: str, function: Callable[..., Any], *inputs: Any) -> Any:
    try:
        return function(*inputs)
    except ConfigError:
        raise
    except Exception as error:  # whatever a user's code raises is theirs to read
        raise ConfigError(f"{setting}: {name} raised {type(error).__name__}: {error}") from error


def make_connectors(given: Any, setting: str, spaces: EnvSpaces | None) -> list[Connector]:
    """Return the connectors that a setting gives, in order.

    Args:
        given: The value of the setting; None: no connectors.
        setting: The name of the setting, which decides what a connector takes; see `Signature`.
        spaces: The spaces that factories get; None: there are none.

    Raises:
        ConfigError: naming the connector and what is wrong with it.
    """
    check_connectors(given, setting)
    made: list[Connector] = []
    for entry in entries(given):
        options = dict(entry) if isinstance(entry, dict) else {}
        kind = options.pop("type", None) if isinstance(entry, dict) else entry
        found = resolve_callable(kind) if isinstance(kind, str) else kind
        name = kind if isinstance(kind, str) else callable_name(kind)
        made += _make(found, options, setting, name, spaces)
    return made


def _make(
    found: Any, options: dict[str, Any], setting: str, name: str, spaces: EnvSpaces | None
) -> list[Connector]:
    """Return what an entry stands for: itself, a class's object, or a factory's connectors."""
    signature = Signature(setting, found, options)

    def made_of(*arguments: Any) -> list[Connector]:
        try:
            made = found(*arguments, **options)
        except ConfigError:
            raise
        except Exception as error:  # whatever a user's code raises is theirs to read
            kind = "" if isinstance(error, TypeError) else f"{type(error).__name__}: "
            raise ConfigError(f"{setting}: {name} cannot be made: {kind}{error}") from error
        several = made if isinstance(made, (list, tuple)) else [made]
        return [_connector(connector, setting, name) for connector in several]

    if signature.takes_module:
        return [Connector(name, _not_yet, None, lambda module: made_of(spaces, module))]
    if signature.makes_connectors:
        assert spaces is not None
        return made_of(*signature.factory_arguments(name, spaces))
    if isinstance(found, type):
        return made_of()
    return [_connector(functools.partial(found, **options) if options else found, setting, name)]


def _connector(made: Any, setting: str, name: str) -> Connector:
    if not callable(made):
        raise ConfigError(f"{setting}: {name} gives {made!r}, which is no function; see __call__")
    Signature(setting, made).check_connector(name)
    return Connector(name, made, getattr(made, "space", None))


def _not_yet(*inputs: Any) -> Any:
    raise RuntimeError("this connector is made with the networks, which are not there yet")


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
        and (
            p.kind in (*_BY_POSITION, p.VAR_POSITIONAL)
            or (p.kind is p.KEYWORD_ONLY and p.default is p.empty)  # it must be named
        )
    ]
