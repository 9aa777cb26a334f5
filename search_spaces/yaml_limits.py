"""How large a YAML text may be: seen from its events, before anything is built of it.

A few hundred bytes of aliases can stand for billions of values, and thousands of nested brackets
end in Python's recursion limit. Nothing that a person writes comes near these bounds.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 5_000_000
MAX_VALUES = 100_000
"""Keys and values, each alias counted as what it stands for."""
MAX_DEPTH = 64
MAX_KEY = 500
"""Characters of a key."""

_Start = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_End = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class LimitError(ValueError):
    """A text or file is larger than what is read; `line` (from 1) is where, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_text(path: Path) -> str:
    """Return the text of a regular file of at most `MAX_BYTES`.

    Raises:
        LimitError: It is no regular file (a pipe would be waited for), or is larger.
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise LimitError(f"is {kind}; expected a regular file")
    with path.open("rb") as stream:  # what is no file on a disk, as in /proc, tells no size
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise LimitError(f"has more than {MAX_BYTES:,} bytes, the most that is read")
    return content.decode("utf-8")


def check_limits(text: str, loader: Any) -> None:
    """See that a YAML text, written out without aliases, stays within the bounds.

    Args:
        text: The text.
        loader: PyYAML's loader class to parse it with.

    Raises:
        LimitError: It has too many values, or nests too deeply.
        yaml.YAMLError: It is not YAML.
    """
    sizes: dict[str, tuple[int, int]] = {}  # of each anchor: its values, and how deep they nest
    frames: list[_Frame] = []  # of the collections that are open
    count = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, _End):
            closed = frames.pop()
            if frames:
                frames[-1].deepest = max(frames[-1].deepest, closed.deepest + 1)
            if closed.anchor is not None:
                sizes[closed.anchor] = (count - closed.count, closed.deepest)
            continue
        size, depth = 1, 0
        if isinstance(event, yaml.AliasEvent):
            size, depth = sizes.get(str(event.anchor), (1, 0))
        elif not isinstance(event, (*_Start, yaml.ScalarEvent)):
            continue
        line = event.start_mark.line + 1 if event.start_mark is not None else None
        if isinstance(event, _Start):
            frames.append(_Frame(event.anchor, count))
        elif frames:
            frames[-1].deepest = max(frames[-1].deepest, depth + 1)
        count += size
        if count > MAX_VALUES:
            raise LimitError(
                f"has more than {MAX_VALUES:,} values, aliases written out, the most that is read",
                line,
            )
        if len(frames) + depth > MAX_DEPTH:
            raise LimitError(f"nests more than {MAX_DEPTH} levels deep", line)


class _Frame:
    """A collection that is open: its anchor, the count before it, the levels below it."""

    def __init__(self, anchor: str | None, count: int) -> None:
        self.anchor = anchor
        self.count = count
        self.deepest = 1
