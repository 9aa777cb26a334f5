"""Which class a spec's callback names, what it is made with, and whether it can be made here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.spec.named_loggers import NAMED
from experiments.spec.references import REFERENCE, writes_secret
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, KeyPath
from trainables.core.callables import resolve_callable
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion

# Names of arguments that hold what nobody else should read.
_SECRET = re.compile(r"(?i)(^|_)(api_?key|key|token|secret|password|passwd|pwd|credentials?)$")


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
        found = resolve_callable(name)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix(f"{name!r} ")) from None
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


def check_callbacks(document: Document, spec: SweepSpec) -> None:
    """Find each callback's class, and see that it takes its arguments.

    Raises:
        SpecError: It is no callback, its library is missing, or it has an argument that it does
            not take, or a key that would be written to the sweep's folder.
    """
    for wanted in wanted_callbacks(spec):
        section, index = wanted.key.split(".")
        place: KeyPath = (section, int(index))
        if section == "callbacks":
            _check_secrets(document, spec, place)
            place = (*place, "class")
        key = ".".join(map(str, place))
        try:
            found = callback_class(wanted.name)
        except ValueError as error:
            raise document.error(place, f"{key}: {wanted.name!r} {error}") from None
        if problem := why_not_these(found, wanted.args):
            arguments = (section, int(index), "args")
            raise document.error(arguments, f"{wanted.key}.args: {problem}")


def _check_secrets(document: Document, spec: SweepSpec, place: KeyPath) -> None:
    """What is written for an argument is its reference; a literal key would be written itself."""
    entry = spec.callbacks[int(place[1])]
    for path, value in _leaves((*place, "args"), entry.args, spec._references):
        dotted = ".".join(map(str, path))
        reference = spec._references.get(dotted)
        if reference is not None and any("." in str(part) for part in path):
            raise document.error(
                path, f"{dotted}: a key with a '.' in it cannot have ${{env:…}} as its value"
            )
        is_named_so = any(_SECRET.search(str(part)) for part in path[3:])
        if value is None or isinstance(value, bool):
            continue
        if is_named_so and _literal(reference):
            variable = f"{entry.class_}_API_KEY" if entry.class_ in NAMED else "MY_KEY"
            raise document.error(
                path,
                f"{dotted} would be written to the sweep's spec.yaml and to MLflow; set an "
                f"environment variable and write ${{env:{variable.upper()}}}, without a default",
            )
        if isinstance(value, str) and writes_secret(value, reference):
            raise document.error(
                path,
                f"{dotted} holds credentials, and a spec is kept in the sweep's folder; write "
                "${env:NAME} in their place",
            )


def _literal(reference: str | None) -> bool:
    """Tell whether a text holds no reference, or a default that would be written."""
    if reference is None:
        return True
    return any(found["default"] for found in REFERENCE.finditer(reference))


def _leaves(
    path: KeyPath, value: Any, references: Mapping[str, str]
) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is written by itself; one reference may stand for a mapping or a list."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    if ".".join(map(str, path)) in references or not isinstance(value, (dict, list, tuple)):
        yield path, value
        return
    for key, item in inner:
        yield from _leaves((*path, key), item, references)
