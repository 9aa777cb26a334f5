"""Config classes: which algorithm they build, and of a user's own, fields that are plain ones."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from trainables.core.config.settings import Settings
from trainables.core.errors import ConfigError
from trainables.core.features import feature

C = TypeVar("C", bound=type)


def settings_of(algorithm: str) -> Callable[[C], C]:
    """Return a decorator of the config class of one of our algorithms.

    The class stands in a file without PyTorch, and is known as a name of its algorithm's module: by
    that name it is pickled and shown.

    Args:
        algorithm: `module:name` of the `Algorithm` subclass, which is imported when it is built.
    """

    def decorated(config_class: C) -> C:
        hints = typing.get_type_hints(config_class)  # found here, and not in the other module
        own = config_class.__annotations__
        own.update({name: hints[name] for name in own})
        config_class.algorithm = algorithm  # type: ignore[attr-defined]
        config_class.__module__ = algorithm.partition(":")[0]
        return config_class

    return decorated


class StaysHere:
    """The class of a running algorithm, in its config, which goes to actors without it.

    There it is not needed, and a script's own class would go with all that it refers to.
    """

    def __init__(self, algorithm: Any):
        self._algorithm = algorithm

    def get(self) -> Any:
        """Return the class.

        Raises:
            ConfigError: in another process than the algorithm's.
        """
        if self._algorithm is None:
            raise ConfigError(
                "this config is of an algorithm in another process, and its algo_class stayed "
                "there: set algo_class anew"
            )
        return self._algorithm

    def __copy__(self) -> StaysHere:
        return self

    def __reduce__(self) -> Any:
        return StaysHere, (None,)


@functools.cache
def check_defaults(config_class: type[Settings]) -> None:
    """Check once that each value that a class gives a setting is a field: others have no effect.

    Raises:
        ConfigError: naming the class and the setting.
    """
    for base in config_class.__mro__:
        own = vars(base)
        fields = own.get("__annotations__", {}) if "__dataclass_params__" in own else {}
        for name in config_class.settings().keys() & own.keys() - fields.keys():
            raise ConfigError(
                f"{name} = {own[name]!r} in class {base.__name__} has no effect: put @dataclass "
                f"above the class, and write a type, `{name}: … = {own[name]!r}`"
            )


def checked_algorithm(config_class: type, given: Any) -> Any:
    """Return an `Algorithm` subclass that a config of this class can be for.

    Raises:
        ConfigError: if it is something else, such as an environment, or takes another config.
    """
    needed = getattr(given, "config_class", None) if isinstance(given, type) else None
    if needed is None:
        env = repr(given) if isinstance(given, str) else getattr(given, "__name__", repr(given))
        name = config_class.__name__
        raise ConfigError(
            f"{name}({env}): its first parameter is algo_class, a subclass of Algorithm; an "
            f"environment is {name}().environment({env}) or {name}(env={env})"
        )
    if not (issubclass(config_class, needed) or issubclass(needed, config_class)):
        raise ConfigError(
            f"{config_class.__name__} cannot be for algo_class = {given.__name__}, which takes a "
            f"{needed.__name__}: write {needed.__name__}({given.__name__})"
        )
    return given


def how_to_declare(config_class: type, name: str) -> str:
    """Return how a class of one's own declares what it only assigns; "" for our classes."""
    if config_class.__module__.startswith("trainables."):
        return ""
    if any(name in vars(base).get("__annotations__", {}) for base in config_class.__mro__):
        return f"; put @dataclass above class {config_class.__name__} for its fields to be settings"
    return f"; a setting of your own is a field of a @dataclass: `{name}: float = 0.1`"


def default_config_of(
    config_class: type[Settings], module: str | None = None
) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, by which `DEFAULT_CONFIG` is a fresh copy each time.

    Args:
        config_class: Whose settings they are.
        module: The name of the module; None: the one that the class is in.
    """
    module = module or config_class.__module__

    def __getattr__(name: str) -> Any:
        if name == "DEFAULT_CONFIG":
            return feature("reference").default_config(config_class)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
