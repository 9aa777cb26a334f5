"""Which class a spec's callback names, and what it is made with."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.spec.named_loggers import NAMED
from experiments.spec.schema import SweepSpec
from trainables.core.suggestions import suggestion


@dataclass(frozen=True)
class Wanted:
    """A callback that a spec asks for.

    Attributes:
        key: The place where the spec says so, e.g. `callbacks.0`.
        name: `module:Class`, or a tracker's name.
        args: Keyword arguments, with the defaults of a tracker.
    """

    key: str
    name: str
    args: dict[str, Any]

    @property
    def path(self) -> str:
        """`module:Class`."""
        return NAMED[self.name].path if self.name in NAMED else self.name


def wanted_callbacks(spec: SweepSpec) -> Iterator[Wanted]:
    """Yield the callbacks of a spec's `loggers` and `callbacks`, in this order."""
    for index, logger in enumerate(spec.loggers):
        if logger in NAMED and logger not in spec.loggers[:index]:
            yield Wanted(f"loggers.{index}", logger, NAMED[logger].defaults(spec))
    for index, entry in enumerate(spec.callbacks):
        name = entry.class_
        defaults = NAMED[name].defaults(spec) if name in NAMED else {}
        yield Wanted(f"callbacks.{index}", name, {**defaults, **entry.args})


def callback_class(name: str) -> Any:
    """Return the class that a tracker's name or `module:Class` stands for.

    Raises:
        ValueError: It cannot be imported, needs a library that is not installed, or is no
            `ray.tune.Callback`; the message says what could be written instead.
    """
    from ray import tune

    if name in NAMED:
        if missing := NAMED[name].missing:
            raise ValueError(missing)
        name = NAMED[name].path
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        hint = suggestion(name, NAMED, cutoff=0.5)
        raise ValueError(f"is no callback; allowed: module:Class, {', '.join(NAMED)}{hint}")
    try:
        found: Any = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"cannot be imported: {error}") from None
    if isinstance(found, type) and issubclass(found, tune.Callback):
        return found
    raise ValueError(
        "is no class that extends ray.tune.Callback; callbacks of an algorithm (on_episode_end, …) "
        "belong under config: {callbacks_class: module:Class}"
    )


def why_not_these(found: Any, args: dict[str, Any]) -> str:
    """Return why a class cannot be made with these keyword arguments; "" if it can."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # of an extension module
        return ""
    try:
        signature.bind(**args)
    except TypeError as error:
        names = [
            name
            for name, parameter in signature.parameters.items()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        unknown = next((key for key in args if key not in names), None)
        hint = suggestion(unknown, names) if unknown is not None else ""
        allowed = ", ".join(names) or "none"
        return f"{found.__name__} {error}; its arguments: {allowed}{hint}"
    return ""
