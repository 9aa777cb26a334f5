"""Search spaces by name: `ppo` (its default preset), `ppo/zoo`, or the path of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from search_spaces.documents import Document, SpecError, load_document
from search_spaces.space import SearchSpace
from trainables.core.suggestions import did_you_mean, nearest_name, suggestion

DEFAULT = "default"

_FOLDER = Path(__file__).parent
_SUFFIXES = (".yaml", ".yml")
_PRESET_KEYS = ("description", "source", "parameters")
_KEYS = ("trainable", "presets", *_PRESET_KEYS)


@dataclass(frozen=True)
class Preset:
    """One search space of a file.

    Attributes:
        name: What `load_space` takes, e.g. `ppo/zoo`.
        trainable: The algorithm whose settings it searches; None if the file does not say.
        description: What it searches, in a line.
        source: The source of its ranges.
        space: The settings and their domains.
        notes: What the file says about a setting in a comment beside it, by setting.
    """

    name: str
    trainable: str | None
    description: str
    source: str
    space: SearchSpace
    notes: Mapping[str, str]


def space_names() -> list[str]:
    """Return the search spaces of the package, one for each algorithm: `dqn`, `ppo`, …."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def preset_names(name_or_path: str) -> list[str]:
    """Return the presets of a search space, in the order of its file."""
    return list(_presets(_read(name_or_path)))


def spaces_by_trainable() -> dict[str, str]:
    """Return the space that ships for each algorithm: `{"PPO": "ppo", …}`."""
    return {_read(name).data["trainable"]: name for name in space_names()}


def known_preset_names() -> list[str]:
    """Return every preset that some space has: `default`, `small`, …."""
    return list(dict.fromkeys(p for name in space_names() for p in preset_names(name)))


def load_preset(name_or_path: str) -> Preset:
    """Read a preset with its description and notes; see `load_space`."""
    name, preset = _split(name_or_path)
    document = _read(name)
    name = name if Path(name).suffix in _SUFFIXES else name.lower()
    presets = _presets(document)
    if preset not in presets:
        hint = suggestion(f"{name}/{preset}", [f"{name}/{known}" for known in presets])
        raise SpecError(
            f"the search space {name!r} has no preset {preset!r}; allowed: "
            f"{', '.join(presets)}{hint}"
        )
    path = presets[preset]
    entry = document.at(path)
    place = (*path, "parameters")
    space = SearchSpace.parse_document(document, place)
    comments = _comments(document.source)
    lines = {p.key: document.place(_place(document, place, p.path)).line for p in space.parameters}
    return Preset(
        name=name if preset == DEFAULT else f"{name}/{preset}",
        trainable=document.data.get("trainable"),
        description=str(entry.get("description", "")).strip(),
        source=str(entry.get("source", "")).strip(),
        space=space,
        notes={key: comments[line] for key, line in lines.items() if line in comments},
    )


def load_space(name_or_path: str) -> SearchSpace:
    """Load a search space.

    Args:
        name_or_path: A space that ships with the package (`ppo`: its default preset), one of its
            presets (`ppo/zoo`), or a YAML file (`mine.yaml`, `mine.yaml/small`).

    Example:
        >>> load_space("ppo").keys[0]
        'lr'

    Raises:
        SpecError: There is no such space or preset, or the file is wrong; the message names file,
            line and key.
    """
    return load_preset(name_or_path).space


def _split(name_or_path: str) -> tuple[str, str]:
    """Return the space's name or path, and the preset's name."""
    text = str(name_or_path)
    head, slash, tail = text.rpartition("/")
    if Path(text).suffix in _SUFFIXES or not slash:
        return text, DEFAULT
    return head, tail


def _read(name_or_path: str) -> Document:
    """Return the file of a space, with its outer keys checked."""
    path = Path(name_or_path)
    if path.suffix not in _SUFFIXES:
        names = space_names()
        if name_or_path.lower() not in names:
            presets = known_preset_names()
            likely = nearest_name(name_or_path.lower(), [*names, *presets])
            hint = did_you_mean([likely] if likely else [])
            if likely in presets:
                having = [name for name in names if likely in preset_names(name)]
                hint = f"; {likely!r} is a preset: write {having[0]}/{likely}, …"
            example = f"{names[0]}/{preset_names(names[0])[-1]}"
            raise SpecError(
                f"unknown search space {name_or_path!r}; allowed: {', '.join(names)}, one of their "
                f"presets ({example}), or the path of a .yaml file{hint}"
            )
        path = _FOLDER / f"{name_or_path.lower()}.yaml"
    document = load_document(path)
    _check_keys(document, (), _KEYS)
    if "presets" not in document.data:
        _check_parameters(document, ())
        return document
    for key in _PRESET_KEYS:
        if key in document.data:
            raise document.error((key,), f"{key!r} belongs into one of the presets")
    presets = document.data["presets"]
    if not isinstance(presets, dict) or DEFAULT not in presets:
        raise document.error(("presets",), f"presets must be a mapping that holds {DEFAULT!r}")
    for name, entry in presets.items():
        if not isinstance(entry, dict):
            raise document.error(("presets", name), f"{name} = {entry!r} is not a mapping")
        _check_keys(document, ("presets", name), _PRESET_KEYS)
        _check_parameters(document, ("presets", name))
    return document


def _check_keys(document: Document, path: tuple[str, ...], known: tuple[str, ...]) -> None:
    for key in document.at(path):
        if key not in known:
            hint = suggestion(key, known)
            raise document.error(
                (*path, key), f"unknown key {key!r}; allowed: {', '.join(known)}{hint}"
            )


def _check_parameters(document: Document, path: tuple[str, ...]) -> None:
    if "parameters" not in document.at(path):
        raise document.error(path, "missing key 'parameters': the settings to search")


def _presets(document: Document) -> dict[str, tuple[str, ...]]:
    """Return where each preset lies in the document."""
    if "presets" not in document.data:
        return {DEFAULT: ()}
    return {name: ("presets", name) for name in document.data["presets"]}


def _place(
    document: Document, parameters: tuple[str, ...], setting: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the key of a setting: written with dots, or nested."""
    dotted = (*parameters, ".".join(setting))
    return dotted if dotted in document.lines else (*parameters, *setting)


def _comments(source: str) -> dict[int, str]:
    """Return the comment at the end of each line of a YAML file, by line from 1."""
    text = Path(source).read_text(encoding="utf-8")
    ends: dict[int, int] = {}
    for token in yaml.scan(text):
        mark = token.end_mark
        ends[mark.line] = max(ends.get(mark.line, 0), mark.column)
    comments = {}
    for number, line in enumerate(text.split("\n")):
        rest = line[ends[number] :].strip() if number in ends else ""
        if rest.startswith("#"):
            comments[number + 1] = rest.lstrip("# ").strip()
    return comments
