"""Callables by name: `module:qualname`, as settings and checkpoints hold them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import suggestion


class UntrustedName(str):
    """`module:qualname` of a callable that a checkpoint names. Nothing of it is imported."""


def callable_name(value: Callable[..., Any]) -> str:
    """Return `module:qualname` of a callable, which finds it again unless it is a local one."""
    # An instance (a functools.partial, say) has no name of its own: its class's would be another.
    return f"{value.__module__}:{getattr(value, '__qualname__', f'<{type(value).__qualname__}>')}"


def is_findable(name: str) -> bool:
    """Tell whether `module:qualname` finds its callable again: not a lambda, or a local one."""
    return "<" not in name.partition(":")[2]


def resolve_callable(name: str) -> Any:
    """Import what `module:qualname` names. Only for names that the user wrote or trusts.

    Raises:
        ConfigError: if there is no such thing.
    """
    module_name, _, qualname = name.partition(":")
    if not is_findable(name):
        raise ConfigError(
            f"{name!r} cannot be found again: define it at the top of a module, or register it "
            "under a name (tune.register_env)"
        )
    try:
        found: Any = importlib.import_module(module_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{name!r} cannot be found: {error}") from None
    for part in qualname.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            hint = suggestion(part, [known for known in dir(found) if known[0] != "_"])
            raise ConfigError(f"{name!r} cannot be found: {error}{hint}") from None
    return found


def resolve_function(setting: str, given: Any, allowed: str) -> Callable[..., Any]:
    """Return the function that a setting gives, itself or by its name. It is not called.

    What Python's own library has is no function of any setting: `os:system` takes one argument, as
    one that is asked for an agent's policy does, and would run the agent's name as a command.

    Args:
        setting: The setting.
        given: What it gives.
        allowed: The form of the function, for errors.

    Raises:
        ConfigError: if there is none of the name, or it is not allowed.
    """
    form = f"allowed: {allowed}"
    if isinstance(given, str) and given.partition(":")[0].split(".")[0] in sys.stdlib_module_names:
        raise ConfigError(f"{setting} = {given!r} is of Python's own library; {form}")
    try:
        found: Any = resolve_callable(given) if isinstance(given, str) else given
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}; {form}") from None
    if not callable(found):
        raise ConfigError(f"{setting} = {given!r} is not allowed; {form}")
    function: Callable[..., Any] = found
    return function


NOT_THEIRS = ("trainables", "torch", "ray", "builtins", "abc", "typing")
"""Packages whose classes and methods no user wrote."""


def refuse_uncalled(given: type, kind: str) -> None:
    """Refuse a class of a user's that defines methods which nothing calls here.

    Args:
        given: The class.
        kind: What it is, by the name of its table in `core.config.reference.uncalled_hooks`.

    Raises:
        ConfigError: naming the class, each method, and what to do instead.
    """
    if any(base.__module__.partition(".")[0] not in NOT_THEIRS for base in given.__mro__):
        feature("reference").refuse_uncalled(given, kind)
