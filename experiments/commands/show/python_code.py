"""Python source for calls of constructors, laid out as a person would.

`Call` stands for a call that is written and not made; `render` writes it on one line or, if it is
too long, an argument a line. Keyword arguments that equal the callee's defaults are left out.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from tunescape.shared_names import PACKAGES, our_package

WIDTH = 88
_INDENT = 4


class Name(str):
    """An expression that is written as it stands: a variable's name, `tune.TuneConfig`."""

    __slots__ = ()


class Imported(Name):
    """A name that is imported from where a spec says: `module:name`."""

    module: str

    def __new__(cls, reference: str) -> Imported:
        module, _, name = reference.partition(":")
        found = super().__new__(cls, name)
        found.module = module
        return found


@dataclass
class Call:
    """A call that is written.

    Attributes:
        function: What is called; its signature says what need not be written.
        args: Positional arguments.
        kwargs: Keyword arguments.
        name: How it is written, if not by its own name.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def written(self) -> str:
        """The name in front of the parenthesis."""
        return self.name or self.function.__name__

    def arguments(self) -> Iterator[tuple[str, Any]]:
        """`name=` (or nothing) and value of each argument that is not a default."""
        parameters = _parameters(self.function)
        for value in self.args:
            yield "", value
        for key, value in self.kwargs.items():
            parameter = parameters.get(key)
            if parameter is None or not _same(value, parameter.default):
                yield f"{key}=", value


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """By name; of a class that passes `**options` on, those of the classes it extends, too."""
    found: dict[str, inspect.Parameter] = {}
    for base in reversed(function.__mro__ if isinstance(function, type) else ()):
        if "__init__" in vars(base) and base is not object:
            found |= inspect.signature(vars(base)["__init__"]).parameters
    return found | dict(inspect.signature(function).parameters)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    """`Call` as one writes a call."""
    return Call(function, args, kwargs)


def section_call(section: BaseModel) -> Call:
    """A section of a spec by the keys that were not left at their defaults."""
    kwargs = section.model_dump(exclude_defaults=True, exclude={"algorithm"})
    return Call(type(section), (), kwargs)


def render(value: Any, indent: int = 0, column: int = 0) -> str:
    """Source of a value.

    Args:
        value: Plain data, a `Name` or a `Call`, nested as one likes.
        indent: Of the line in which it begins.
        column: In which it begins.
    """
    flat = _flat(value)
    if column + len(flat) < WIDTH:
        return flat
    inner = indent + _INDENT
    lines = []
    if isinstance(value, Call):
        opening, closing = f"{value.written}(", ")"
        items = list(value.arguments())
    elif isinstance(value, dict):
        opening, closing = "{", "}"
        items = [(f"{_flat(key)}: ", item) for key, item in value.items()]
    elif isinstance(value, list):
        opening, closing = "[", "]"
        items = [("", item) for item in value]
    else:
        return flat
    if isinstance(value, Call) and len(items) == 1 and isinstance(items[0][1], (dict, list)):
        text = items[0][0] + render(items[0][1], indent, WIDTH)
        return f"{opening}{text}{closing}"
    for before, item in items:
        text = before + render(item, inner, inner + len(before))
        lines.append(f"{' ' * inner}{text},\n")
    return f"{opening}\n{''.join(lines)}{' ' * indent}{closing}"


def imports_of(*values: Any) -> tuple[str, str]:
    """The import statements that the values need: of libraries, and of ours."""
    wanted: dict[str, set[str]] = {}
    for value in values:
        for function in _functions(value):
            is_named = isinstance(function, Imported)
            module = function.module if is_named else _home(function)
            name = str(function) if is_named else function.__name__
            wanted.setdefault(module, set()).add(name.partition(".")[0])
    libraries: list[str] = []
    ours: list[str] = []
    for module in sorted(wanted):
        line = f"from {module} import {', '.join(sorted(wanted[module]))}"
        (ours if module.partition(".")[0] in PACKAGES else libraries).append(line)
    return "\n".join(libraries), "\n".join(ours)


def _functions(value: Any) -> Iterator[Any]:
    if isinstance(value, Call):
        if not value.name:
            yield value.function
        for _, item in value.arguments():
            yield from _functions(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _functions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _functions(item)
    elif isinstance(value, (type, Imported)):
        yield value


def _home(function: Callable[..., Any]) -> str:
    """The module from which people import it: the shortest that has it."""
    module, name = function.__module__, function.__name__
    parts = module.split(".")
    if parts[0] == "ray":
        public = {f"ray.tune.{part}" for part in ("logger", "schedulers", "search")}
        package = ".".join(parts[:3])
        has_it = package in public and hasattr(importlib.import_module(package), name)
        return package if has_it else module
    if parts[0] in PACKAGES and name in our_package(parts[0]).__all__:
        return parts[0]
    return module


def _flat(value: Any) -> str:
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, Call):
        inside = ", ".join(f"{before}{_flat(item)}" for before, item in value.arguments())
        return f"{value.written}({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flat(k)}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, tuple):
        return repr(value)
    if isinstance(value, str):
        return '"' + value + '"' if '"' not in value and value.isprintable() and "\\" not in value \
            else repr(value)  # fmt: skip
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, type):
        return value.__qualname__
    return repr(value)


def _same(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    if isinstance(value, (list, dict)) and not value and not default:
        return True  # nothing is given, whatever the default writes for it
    if value is None or default is None or isinstance(value, (Name, Call)):
        return value is default
    return type(value) is type(default) and bool(value == default)
