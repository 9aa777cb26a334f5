"""Callables by name: `module:qualname`, as settings and checkpoints hold them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from trainables.core.errors import ConfigError


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
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{name!r} cannot be found: {error}") from None
    return found
