"""Connectors that users give in the config: functions, classes, factories, or names of these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.connectors import check_connectors
from trainables.core.config.entries import entries
from trainables.core.errors import ConfigError
from trainables.core.policy.connectors.signatures import EnvSpaces, Signature

__all__ = ["Connector", "EnvSpaces", "make_connectors"]


class Connector(NamedTuple):
    """A connector of the user's.

    Attributes:
        name: What errors call it.
        call: Applies it.
        space: Says what space it makes of one, if it is a class with a method of that name.
        of_module: Of one that is still to be made with the networks: makes what takes its place.
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
        given: See `ALLOWED`; None: none.
        setting: What errors call it; it decides what a connector takes, see `Signature`.
        spaces: What factories get; None: there are none.

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
    """What an entry stands for: itself, an object of the class, or what the factory returns."""
    signature = Signature(setting, found, options)
    if signature.takes_module:

        def with_module(module: Any) -> list[Connector]:
            made = _made(found, (spaces, module), options, setting, name)
            return [_connector(connector, setting, name) for connector in made]

        return [Connector(name, _not_yet, None, with_module)]
    if signature.makes_connectors:
        assert spaces is not None
        arguments = signature.factory_arguments(name, spaces)
        made = _made(found, arguments, options, setting, name)
    elif isinstance(found, type):
        made = _made(found, (), options, setting, name)
    else:
        made = [functools.partial(found, **options) if options else found]
    return [_connector(connector, setting, name) for connector in made]


def _made(
    found: Any, arguments: tuple[Any, ...], options: dict[str, Any], setting: str, name: str
) -> list[Any]:
    """Return what a class or a factory gives."""
    try:
        made = found(*arguments, **options)
    except ConfigError:
        raise
    except Exception as error:  # whatever a user's code raises is theirs to read
        said = f"{error}" if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{setting}: {name} cannot be made: {said}") from error
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _connector(made: Any, setting: str, name: str) -> Connector:
    if not callable(made):
        raise ConfigError(f"{setting}: {name} gives {made!r}, which is no function; see __call__")
    Signature(setting, made).check_connector(name)
    return Connector(name, made, getattr(made, "space", None))


def _not_yet(*inputs: Any) -> Any:
    raise RuntimeError("this connector is made with the networks, which are not there yet")
