"""Environment variables in specs: `${env:NAME}` and `${env:NAME:default}`.

A value that is one reference and nothing else is read as YAML (`${env:LR:3e-4}` is a number);
within a longer text the variable's text is put in. `$${` stands for `${` itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.credentials import has_secret
from experiments.spec.matrix import KEY
from search_spaces.documents import Document, KeyPath, SpecError, parse
from trainables.core.suggestions import suggestion

CREDENTIALS: tuple[KeyPath, ...] = (
    ("mlflow", "tracking_uri"),
    ("search", "study_storage"),
    ("search", "warm_start", "*", "tracking_uri"),
    ("callbacks", "*", "args", "**"),
)
"""Keys that may hold a password: what is written to disk is the reference, not the value.

`*` is any place of a list, `**` everything below.
"""

REFERENCE = re.compile(r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^}]*))?\}")
# A run of `$` is looked at once, from its beginning: else its length would count squared.
_TOKEN = re.compile(r"(?P<escaped>(?<!\$)\$\$+\{)|(?P<reference>\$\{[^}]*\}?)")
_USAGE = "write ${env:NAME} or ${env:NAME:default}, or $${ for the text ${"


def expand_references(document: Document) -> dict[str, str]:
    """Replace every reference in the document's values.

    Returns:
        The original text of the `CREDENTIALS` that hold references, by dotted key.

    Raises:
        SpecError: A variable is not set and has no default, or a reference is malformed.
    """
    kept = {
        _dotted(path): text
        for path, text in _texts((), document.data)
        if _is_credential(path) and REFERENCE.search(text)
    }
    document.data = _expanded(document, (), document.data)
    return kept


def expand_shared_references(document: Document) -> None:
    """Replace the references in a document of several sweeps, which are expanded one by one later.

    Those of `CREDENTIALS` stay, so that each sweep has its own; the other texts stay escaped.
    """
    document.data = _expanded(document, (), document.data, shared=True)


def put_references(data: dict[str, Any], references: Mapping[str, str]) -> None:
    """Write `expand_references`' texts over the values in a spec's plain data."""
    for dotted, text in references.items():
        *parents, last = dotted.split(".")
        here: Any = data
        for key in parents:
            here = here[int(key)] if isinstance(here, list) else here.get(key, {})
        if last in here:
            here[last] = text


def writes_secret(uri: str | None, reference: str | None) -> bool:
    """Tell whether a password or token of a URI would be written with the spec.

    Args:
        uri: The URI.
        reference: The text that is written for it, with `${env:…}`; None: itself.
    """
    if reference is None:
        return has_secret(uri or "")
    # `http://ada:${env:PASSWORD}@host` writes none, and `${env:URI:http://ada:pa55@host}` one.
    return has_secret(REFERENCE.sub(lambda found: found["default"] or "", reference), blank=False)


def escaped(text: str) -> str:
    """Return the text as it is written in a spec, so that reading it gives the text again."""
    return re.sub(r"(?<!\$)\$+\{", r"$\g<0>", text)


def _is_credential(path: KeyPath) -> bool:
    return any(is_at(path, known) for known in CREDENTIALS)


def is_at(path: KeyPath, known: KeyPath) -> bool:
    """Tell whether a place is a known one, in which `*` is any key and `**` everything below."""
    if known[-1] == "**":
        known = known[:-1]
        path, below = path[: len(known)], path[len(known) :]
        if not below:
            return False
    return len(path) == len(known) and all(
        key in (part, "*") for key, part in zip(known, path, strict=True)
    )


def _may_become_credential(path: KeyPath) -> bool:
    """Whether a text is a credential, or stands in a matrix where it is one in a combination."""
    if len(path) < 3 or path[0] != KEY:
        return _is_credential(path)
    _, key, _, *below = path
    return _is_credential(tuple(below)) or _is_credential((*str(key).split("."), *below))


def _texts(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts((*path, key), item)


def _expanded(document: Document, path: KeyPath, value: Any, *, shared: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _expanded(document, (*path, key), item, shared=shared)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _expanded(document, (*path, i), item, shared=shared) for i, item in enumerate(value)
        ]
    if not isinstance(value, str) or "${" not in value:
        return value
    if shared and _may_become_credential(path):
        return value
    result = _expanded_text(document, path, value)
    return _escaped_data(result) if shared else result


def _expanded_text(document: Document, path: KeyPath, value: str) -> Any:
    whole = REFERENCE.fullmatch(value)
    if whole is None:
        return _TOKEN.sub(lambda token: _text(document, path, token), value)
    text = _value(document, path, whole)
    try:
        return parse(text, f"the value of {whole['name']}")[0]
    except SpecError as error:
        raise document.error(path, f"{_dotted(path)}: {error}") from None


def _escaped_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped_data(item) for item in value]
    return escaped(value) if isinstance(value, str) else value


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
            f"{suggestion(name, os.environ, cutoff=0.8)}",
        )
    return default


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))
