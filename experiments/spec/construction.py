"""Calls that construct an object: a sweep makes them, `show --as python` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Construction:
    """A call that constructs an object.

    Attributes:
        function: The class, or a function that returns an instance.
        args: Positional arguments, which may be constructions themselves.
        kwargs: Keyword arguments, likewise.
    """

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """Make the call, and those in its arguments before it."""
        kwargs = {name: _made(value) for name, value in self.kwargs.items()}
        return self.function(*map(_made, self.args), **kwargs)


def construction(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Construction:
    """A `Construction` as one writes a call."""
    return Construction(function, args, kwargs)


def _made(value: Any) -> Any:
    if isinstance(value, Construction):
        return value.make()
    return [_made(item) for item in value] if isinstance(value, list) else value
