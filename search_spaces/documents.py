"""YAML documents that remember the line of every key, so that an error can point at it.

Differences from `yaml.safe_load`: a key that occurs twice is an error (YAML keeps the last one
silently), an alias that contains itself is refused, and plain scalars mean what
`search_spaces.yaml_values` says. Numbers fit a double, texts hold no control characters, and no tag
builds anything but plain Python values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from search_spaces.yaml_limits import MAX_KEY, LimitError, check_limits, read_text
from search_spaces.yaml_values import Loader, why_ambiguous
from trainables.core.suggestions import suggestion

KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = (f"{_TAG}map", f"{_TAG}seq")
_SCALAR_TAGS = tuple(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null"))
_LONGEST_INT = 1100  # characters: the largest double in binary; Python reads 4,300 digits
_UNREADABLE = yaml.reader.Reader.NON_PRINTABLE
# YAML allows these in quotes, as escapes; no file's name or setting holds one.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

LONGEST_MESSAGE = 4000  # characters


class SpecError(ValueError):
    """What a user wrote in a spec, a search space or on the command line cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class Place(NamedTuple):
    """Where a key was written."""

    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


@dataclass
class Document:
    """Parsed YAML: plain `data`, and where each key came from.

    Attributes:
        data: The mapping that the document holds.
        source: How the document is named in errors, usually its file.
        lines: File and line (from 1) of each key, by its path in `data`: a key may have been
            written in a file that this one extends.
        settings: Command-line text of each key that `--set` replaced, by its path.
    """

    data: dict[str, Any]
    source: str
    lines: dict[KeyPath, Place] = field(default_factory=dict)
    settings: dict[KeyPath, str] = field(default_factory=dict)

    def at(self, path: KeyPath) -> Any:
        """Return the value at `path`.

        Raises:
            KeyError: There is none.
        """
        value: Any = self.data
        for key in path:
            value = value[key]
        return value

    def where(self, path: KeyPath) -> str:
        """Return `file:line` of the key at `path`, or of its nearest parent with a known place."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.settings:
                return f"--set {self.settings[path[:end]]}"
            if end and path[:end] not in self.lines:  # a parent that an assignment made
                made = [key for key in self.settings if key[:end] == path[:end]]
                if made:
                    return f"--set {self.settings[made[0]]}"
            if path[:end] in self.lines:
                return str(self.lines[path[:end]])
        return self.source

    def place(self, path: KeyPath) -> Place:
        """Return the place of the key at `path`, or of its nearest parent with a known one."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return Place(self.source, 1)

    def line(self, path: KeyPath) -> int:
        """Return the line of the key at `path`, or of its nearest parent with a known one."""
        return self.place(path).line

    def copy_places(self, origin: KeyPath, target: KeyPath) -> None:
        """Keep the places of the keys below `origin` for the same keys below `target`."""
        for path, place in list(self.lines.items()):
            if path[: len(origin)] == origin:
                self.lines[(*target, *path[len(origin) :])] = place
        for path, text in list(self.settings.items()):
            if path[: len(origin)] == origin:
                self.settings[(*target, *path[len(origin) :])] = text

    def error(self, path: KeyPath, message: str) -> SpecError:
        """Return an error about the key at `path`, which names the file and the line."""
        return SpecError(f"{self.where(path)}: {message}")

    def set(self, assignment: str) -> None:
        """Apply one `a.b=value`; the value is parsed as YAML.

        Raises:
            SpecError: The text is no assignment, or a parent of the key is not a mapping.
        """
        dotted, equals, text = assignment.partition("=")
        keys = tuple(dotted.strip().split("."))
        if not equals or not all(keys):
            raise SpecError(f"--set {assignment}: write KEY=VALUE, e.g. --set config.lr=3e-4")
        try:
            value, _ = parse(text, "value")
        except SpecError as error:
            raise SpecError(f"--set {assignment}: {error}") from None
        parent: Any = self.data
        for depth, key in enumerate(keys[:-1], start=1):
            if parent.get(key) is None:
                parent[key] = {}
            parent = parent[key]
            if not isinstance(parent, dict):
                raise SpecError(
                    f"--set {assignment}: {'.'.join(keys[:depth])} is {parent!r}, not a mapping"
                )
        parent[keys[-1]] = value
        self.settings[keys] = assignment


def load_document(path: str | Path) -> Document:
    """Read a YAML file that holds a mapping.

    Raises:
        SpecError: The file cannot be read, is not YAML, or holds no mapping.
    """
    source = str(path)
    try:
        text = read_text(Path(path))
    except FileNotFoundError:
        raise SpecError(f"{source}: no such file{_sibling_hint(Path(path))}") from None
    except LimitError as error:
        raise SpecError(f"{source}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{source}: cannot be read: {reason}") from None
    data, lines = parse(text, source)
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise SpecError(f"{source}: holds {found}; expected a mapping of keys to values")
    return Document(data, source, lines)


def parse(text: str, source: str) -> tuple[Any, dict[KeyPath, Place]]:
    """Parse YAML text to plain Python values and the place of each key.

    Raises:
        SpecError: The text is not YAML, has a duplicate key, an object tag, a cyclic alias, a
            number that no double holds, or a control character.
    """
    if found := _UNREADABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise SpecError(f"{source}:{line}: not valid YAML: control character {found[0]!r}")
    _check_limits(text, source)
    lines: dict[KeyPath, Place] = {}
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, lines
        return _build(loader, node, (), lines, source, ()), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        last = text.count("\n") + 1  # the parser's end of the text may be a line further
        place = f"{source}:{min(mark.line + 1, last)}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        raise SpecError(f"{place}: not valid YAML: {problem}") from None
    finally:
        loader.dispose()


def _check_limits(text: str, source: str) -> None:
    try:
        check_limits(text, Loader)
    except LimitError as error:
        raise SpecError(f"{source}:{error.line}: {error}") from None
    except yaml.YAMLError:
        pass  # reading it says what is wrong


def shortened(text: str) -> str:
    """Leave out a text's middle if it is too long for a message: values may be megabytes."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:500]} … {text[-500:]}"


def _build(
    loader: Loader,
    node: yaml.Node,
    path: KeyPath,
    lines: dict[KeyPath, Place],
    source: str,
    ancestors: Sequence[int],
) -> Any:
    if id(node) in ancestors:
        raise SpecError(f"{source}:{node.start_mark.line + 1}: an alias contains itself")
    ancestors = (*ancestors, id(node))
    if isinstance(node, yaml.ScalarNode):
        return _scalar(loader, node, source)
    if node.tag not in _PLAIN_TAGS:
        raise SpecError(f"{source}:{node.start_mark.line + 1}: not valid YAML: tag {node.tag!r}")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            key = _key(loader, key_node, source)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise SpecError(f"{source}:{line}: the key {key!r} is given twice")
            seen.add(key)
        loader.flatten_mapping(node)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _key(loader, key_node, source)
            lines[(*path, key)] = Place(source, key_node.start_mark.line + 1)
            result[key] = _build(loader, value_node, (*path, key), lines, source, ancestors)
        return result
    items = []
    for index, item in enumerate(node.value):
        lines[(*path, index)] = Place(source, item.start_mark.line + 1)
        items.append(_build(loader, item, (*path, index), lines, source, ancestors))
    return items


def _scalar(loader: Loader, node: yaml.ScalarNode, source: str) -> Any:
    """Return a text, a number, a truth value or None.

    Raises:
        SpecError: The node's text is not what its tag says, or no value that anything here takes.
    """
    where, shown = f"{source}:{node.start_mark.line + 1}", repr(_shortened(node.value))
    kind = node.tag.removeprefix(_TAG)
    if why := why_ambiguous(node):
        raise SpecError(f"{where}: {why}")
    if node.tag not in _SCALAR_TAGS:
        raise SpecError(f"{where}: not valid YAML: tag {node.tag!r} of {shown}")
    try:
        if kind == "int" and len(node.value) > _LONGEST_INT:
            raise OverflowError
        value = loader.construct_object(node)
        if kind == "int":
            float(value)
    except OverflowError:
        raise SpecError(f"{where}: the number {shown} is too large; allowed: below 1e308") from None
    except (ValueError, LookupError):
        raise SpecError(f"{where}: not valid YAML: {shown} is no {kind}") from None
    if isinstance(value, str) and (found := _CONTROL.search(value)):
        raise SpecError(f"{where}: the text {shown} holds the control character {found[0]!r}")
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:40]}… ({len(text):,} characters)"


def _key(loader: Loader, node: yaml.Node, source: str) -> str:
    key = _scalar(loader, node, source) if isinstance(node, yaml.ScalarNode) else None
    where = f"{source}:{node.start_mark.line + 1}"
    if not isinstance(key, str):
        raise SpecError(f"{where}: the key {key!r} is not text; put it in quotes")
    if len(key) > MAX_KEY:
        raise SpecError(f"{where}: the key {key[:20]!r}… has more than {MAX_KEY} characters")
    return key


def _sibling_hint(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f" (and no folder {folder})"
    beside = [p.name for p in folder.iterdir() if p.suffix in (".yaml", ".yml")]
    return suggestion(path.name, beside)
