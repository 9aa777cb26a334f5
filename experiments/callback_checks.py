"""Whether a spec's callbacks can be made here, and hold no key that would be written with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from experiments.callback_classes import callback_class, wanted_callbacks, why_not_these
from experiments.named_loggers import NAMED
from experiments.schema import SweepSpec
from experiments.spec_references import REFERENCE, writes_secret
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
    seen = set()
    for path, value in _leaves((*place, "args"), entry.args):
        dotted = ".".join(map(str, path))
        seen.add(dotted)
        reference = spec._references.get(dotted)
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
    for dotted in spec._references:
        if dotted.startswith(f"callbacks.{place[1]}.args.") and dotted not in seen:
            raise document.error(
                (*place, "args"), f"{dotted}: a key with a '.' in it cannot have ${{env:…}}"
            )


def _literal(reference: str | None) -> bool:
    """Whether a text holds no reference, or a default that would be written."""
    if reference is None:
        return True
    return any(found["default"] for found in REFERENCE.finditer(reference))


def _leaves(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves((*path, key), item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves((*path, index), item)
    else:
        yield path, value
