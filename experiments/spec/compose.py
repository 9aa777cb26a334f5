"""Specs put together from several files: `extends` and `include`.

The two words mean the same: the named files' mappings are merged in order, and the mapping in which
the word stands is merged over them. It may stand at the top of a spec, where the files are specs,
or in a section such as `config`, where they hold that section's keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from analysis.results.searches import SEARCH_SYNONYMS
from experiments.spec.files import find_part
from experiments.spec.overrides import in_full
from search_spaces.documents import Document, KeyPath, load_document
from search_spaces.domains import is_domain

KEYWORDS = ("extends", "include")

MAX_FILES = 100
"""Files that a spec is put together from, each as often as it is named."""

_TAGGED = ("search", "scheduler")  # sections that are another thing with another algorithm


def compose(document: Document, folder: Path) -> Document:
    """Return the document with the files that it extends and includes merged beneath it.

    Mappings are merged key by key; lists, scalars and search domains are replaced; `null` takes
    away what a file gave. A `search` or `scheduler` with another algorithm replaces the whole
    section. `name` is not taken over: it names the folder of one sweep.

    Args:
        document: The outermost file.
        folder: What the names of other files in it are relative to.

    Raises:
        SpecError: A file is missing, is no mapping, or extends itself.
    """
    return _composed(document, folder, (_identity(document, folder),), [], is_spec=True)


def _composed(
    document: Document,
    folder: Path,
    chain: tuple[Path, ...],
    read: list[Path],
    *,
    is_spec: bool,
) -> Document:
    """Return the document with its parts.

    Args:
        document: One of the files, or a section of it.
        folder: See `compose`.
        chain: The files on the way here, for cycles.
        read: All that were read so far; it grows.
        is_spec: Whether the document is no section.
    """
    result = Document({}, document.source)
    own = Document(dict(document.data), document.source, dict(document.lines))
    for keyword in KEYWORDS:
        names = own.data.pop(keyword, [])
        for index, name in enumerate(names if isinstance(names, list) else [names]):
            place = (keyword, index) if isinstance(names, list) else (keyword,)
            part = _part(document, place, name, folder, chain, read, is_spec=is_spec)
            if is_spec:
                part.data.pop("name", None)
            merge(result, part)
    if is_spec:
        for key, section in own.data.items():
            if isinstance(section, dict) and any(keyword in section for keyword in KEYWORDS):
                inner = Document(section, document.source)
                copy_places(document, (key,), inner, ())
                whole = _composed(inner, folder, chain, read, is_spec=False)
                own.data[key] = whole.data
                copy_places(whole, (), own, (key,))
    merge(result, own)
    return result


def _part(
    document: Document,
    place: KeyPath,
    name: Any,
    folder: Path,
    chain: tuple[Path, ...],
    read: list[Path],
    *,
    is_spec: bool,
) -> Document:
    keyword = place[0]
    if not isinstance(name, str):
        raise document.error(place, f"{keyword}: {name!r} is not the path of a file")
    try:
        file = find_part(name, folder)
    except ValueError as error:
        raise document.error(place, f"{keyword}: {error}") from None
    if file.resolve() in chain:
        loop = chain[chain.index(file.resolve()) :]
        names = " -> ".join(link.name for link in (*loop, file))
        raise document.error(place, f"{keyword}: {name} comes to itself again: {names}")
    if len(read) == MAX_FILES:
        raise document.error(
            place, f"{keyword}: the spec is put together from more than {MAX_FILES} files"
        )
    read.append(file)
    chain = (*chain, file.resolve())
    return _composed(load_document(file), file.parent, chain, read, is_spec=is_spec)


def _identity(document: Document, folder: Path) -> Path:
    source = Path(document.source)
    return source.resolve() if source.is_file() else (folder / source.name).resolve()


def merge(base: Document, over: Document, path: KeyPath = ()) -> None:
    """Put what `over` holds at `path` over what `base` holds there, and the places with it."""
    mine, theirs = base.at(path), over.at(path)
    dropped, copied = set(), set()
    for key, value in theirs.items():
        here = (*path, key)
        if value is None and key in mine:
            del mine[key]
            dropped.add(key)
            if path == ("search_space",) and "base" in mine:
                mine[key] = None  # the named space may have it, too
        elif isinstance(value, dict) and (inner := _mergeable(here, mine.get(key), value)):
            mine[key] = inner
            merge(base, over, here)
        else:
            dropped.add(key)
            mine[key] = _copied(value)
            copied.add(key)
    _move_places(base, over, path, dropped, copied)
    for key in theirs:
        if (*path, key) in over.lines:
            base.lines[(*path, key)] = over.lines[(*path, key)]


def _mergeable(path: KeyPath, mine: Any, theirs: dict[str, Any]) -> dict[str, Any] | None:
    """Return what `theirs` is merged into: `mine`, written in full; None if it replaces `mine`."""
    if len(path) == 1:
        mine = in_full(str(path[0]), mine)
    is_tagged = len(path) == 1 and path[0] in _TAGGED
    if is_tagged and isinstance(mine, dict) and "algorithm" in theirs:
        names = [_canonical(section.get("algorithm")) for section in (mine, theirs)]
        return dict(mine) if names[0] == names[1] else None
    if not isinstance(mine, dict) or is_domain(mine) or is_domain(theirs):
        return None
    return mine


def _canonical(algorithm: Any) -> str:
    return SEARCH_SYNONYMS.get(str(algorithm), str(algorithm))


def _copied(value: Any) -> Any:
    """A copy of the containers, so that a later merge does not reach into another document."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def copy_places(origin: Document, path: KeyPath, target: Document, to: KeyPath) -> None:
    """Give what lies at `to` in one document the places of what lies at `path` in another."""
    for known, place in origin.lines.items():
        if known[: len(path)] == path:
            target.lines[(*to, *known[len(path) :])] = place


def _move_places(
    base: Document, over: Document, path: KeyPath, dropped: set[str], copied: set[str]
) -> None:
    """Forget the places of the `dropped` keys at `path`, and take those of the `copied` ones.

    In one pass for all keys: there may be thousands, each with thousands of places.
    """

    def below(places: Iterable[KeyPath], keys: set[str]) -> list[KeyPath]:
        depth = len(path)
        return [
            known
            for known in places
            if len(known) > depth and known[depth] in keys and known[:depth] == path
        ]

    for known in below(base.lines, dropped):
        del base.lines[known]
    for known in below(over.lines, copied):
        base.lines[known] = over.lines[known]
