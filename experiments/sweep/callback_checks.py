"""Whether a spec's callbacks can be made here, and hold no key that would be written with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from experiments.spec.callback_classes import callback_class, wanted_callbacks, why_not_these
from experiments.spec.named_loggers import NAMED
from experiments.spec.references import REFERENCE, writes_secret
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, KeyPath

# Names of arguments that hold what nobody else should read.
_SECRET = re.compile(r"(?i)(^|_)(api_?key|key|token|secret|password|passwd|pwd|credentials?)$")


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
