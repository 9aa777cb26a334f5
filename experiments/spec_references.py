"""Environment variables in specs: `${env:NAME}` and `${env:NAME:default}`.

A value that is one reference and nothing else is read as YAML (`${env:LR:3e-4}` is a number);
within a longer text the variable's text is put in. `$${` stands for `${` itself.
"""

from __future__ import annotations

import os
import re
from typing import Any

from search_spaces.documents import Document, KeyPath, SpecError, nearest, parse

CREDENTIALS: tuple[KeyPath, ...] = (("mlflow", "tracking_uri"), ("search", "study_storage"))
"""Keys that may hold a password: what is written to disk is the reference, not the value."""

REFERENCE = re.compile(r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^}]*))?\}")
_TOKEN = re.compile(r"(?P<escaped>\$\$+\{)|(?P<reference>\$\{[^}]*\}?)")
_USAGE = "write ${env:NAME} or ${env:NAME:default}, or $${ for the text ${"


def expand_references(document: Document) -> dict[str, str]:
    """Replace every reference in the document's values.

    Returns:
        The original text of the `CREDENTIALS` that hold references, by dotted key.

    Raises:
        SpecError: A variable is not set and has no default, or a reference is malformed.
    """
    kept = {}
    for path in CREDENTIALS:
        value: Any = document.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and REFERENCE.search(value):
            kept[".".join(map(str, path))] = value
    document.data = _expanded(document, (), document.data)
    return kept


def escaped(text: str) -> str:
    """The text as it is written in a spec, so that reading it gives the text again."""
    return re.sub(r"\$+\{", r"$\g<0>", text)


def _expanded(document: Document, path: KeyPath, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(document, (*path, key), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(document, (*path, i), item) for i, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = REFERENCE.fullmatch(value)
    if whole is None:
        return _TOKEN.sub(lambda token: _text(document, path, token), value)
    text = _value(document, path, whole)
    try:
        return parse(text, f"the value of {whole['name']}")[0]
    except SpecError as error:
        raise document.error(path, f"{_dotted(path)}: {error}") from None


def _text(document: Document, path: KeyPath, token: re.Match[str]) -> str:
    if token["escaped"]:
        return token["escaped"][1:]
    reference = REFERENCE.fullmatch(token["reference"])
    if reference is None:
        raise document.error(
            path, f"{_dotted(path)}: {token['reference']!r} is no reference; {_USAGE}"
        )
    return _value(document, path, reference)


def _value(document: Document, path: KeyPath, reference: re.Match[str]) -> str:
    name, default = reference["name"], reference["default"]
    if name in os.environ:
        return os.environ[name]
    if default is None:
        raise document.error(
            path,
            f"{_dotted(path)}: the environment variable {name} is not set, and ${{env:{name}}} "
            f"has no default; set it, or write ${{env:{name}:default}}"
            f"{nearest(name, os.environ, cutoff=0.8)}",
        )
    return default


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))
