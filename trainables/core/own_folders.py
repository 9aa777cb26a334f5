"""Which folders this user's own processes wrote on this machine: these need no trust.

The notes are one file in the user's state directory, outside of every folder that is loaded, so no
folder can vouch for itself. A line names a state by its digest, which covers all that names code,
and the machine and folder that it was written to: a copy that came from elsewhere, or lies
elsewhere, is nobody's, and so is one of which a single character was changed.

Notes count only in a file that belongs to the user who reads them and that nobody else may read or
write, and only for folders that are the user's own and that no others may write to.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

NOTES = ("tunescape", "written")
"""Folder and file in the state directory."""
_MOST_BYTES = 4 * 2**20  # about 20,000 checkpoints: the older half goes


class Everything(Collection[str]):
    """Trust in whatever a folder asks for."""

    def __contains__(self, item: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def trust_in(folder: Path, name: str, trust: Collection[str]) -> Collection[str]:
    """Return the trust that a folder is loaded with: `Everything`, if it is one's own.

    Args:
        folder: The folder.
        name: The stem of its state, as of `save_state`: `policy`, `checkpoint`.
        trust: What the user named.
    """
    return Everything() if is_own(folder, name) else trust


def is_own(folder: Path, name: str) -> bool:
    """Tell whether this user's process wrote a state there, on this machine, as it is now."""
    line = _line(folder, name)
    return line is not None and line in _notes()


def may_note(folder: Path, name: str) -> bool:
    """Tell, before a state is written there, whether all that will be there is one's own.

    In a folder with anything else, what lies beside the state may be anybody's.
    """
    return not folder.exists() or not any(folder.iterdir()) or is_own(folder, name)


def note_own(folder: Path) -> None:
    """Note that this process wrote all states in a folder: see `may_note`.

    Where notes cannot be written there are none: the folder needs trust.
    """
    lines = [_line(path.parent, path.stem) for path in sorted(folder.rglob("*.json"))]
    _append([line for line in lines if line is not None])


def note_copy(source: Path, copy: Path) -> None:
    """Note that a policy's folder is a copy of another one, if that is one's own."""
    line, of_copy = _line(source, "policy"), _line(copy, "policy")
    if line is None or of_copy is None or json.loads(line)[0] != json.loads(of_copy)[0]:
        return
    if line in _notes():
        _append([of_copy])


def _line(folder: Path, name: str) -> str | None:
    """Return what a note says of a state; None if there is none that could be one's own."""
    try:
        place = folder.resolve(strict=True)
        file = place / f"{name}.json"
        if not (_is_mine(place, stat.S_ISDIR) and _is_mine(file, stat.S_ISREG)):
            return None
        digest = json.loads(file.read_bytes())["sha256"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    machine = os.uname().nodename
    return json.dumps([digest, machine, str(place)]) if isinstance(digest, str) else None


def _is_mine(path: Path, is_kind: Any) -> bool:
    """Tell whether a file is this user's, and no others may write to it, nor is it a link."""
    if not hasattr(os, "geteuid"):
        return False
    found, user = path.lstat(), os.geteuid()
    shared = found.st_mode & stat.S_IWOTH
    if found.st_gid != user:  # many systems give each user a group of the same number
        shared |= found.st_mode & stat.S_IWGRP
    return bool(is_kind(found.st_mode) and found.st_uid == user and not shared)


def _notes_file() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return state.joinpath(*NOTES)


def _notes() -> set[str]:
    """Return the lines; none of a file that another user could have written."""
    try:
        return set(_opened(os.O_RDONLY).splitlines())
    except (OSError, RuntimeError, ValueError):  # Path.home() may find none
        return set()


def _opened(flags: int, lines: bytes = b"") -> str:
    """Read the notes, or append to them."""
    path = _notes_file()
    if not _is_mine(path.parent, stat.S_ISDIR):
        raise PermissionError(f"{path.parent} is not this user's alone")
    # A pipe in its place would be waited for, and a link may lead anywhere.
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "ab" if lines else "rb") as file:
        found = os.fstat(file.fileno())
        is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if not (stat.S_ISREG(found.st_mode) and is_private):
            raise PermissionError(f"{path} is not this user's alone")
        if not lines:
            return file.read().decode()
        file.write(lines)
        return ""


def _append(lines: list[str]) -> None:
    known = _notes()
    new = "".join(f"{line}\n" for line in lines if line not in known)
    if not new:
        return
    with suppress(OSError, RuntimeError, ValueError):
        path = _notes_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT, new.encode())
        if path.stat().st_size > _MOST_BYTES:
            _forget_the_oldest(path)


def _forget_the_oldest(path: Path) -> None:
    lines = _opened(os.O_RDONLY).splitlines(keepends=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(lines[len(lines) // 2 :])
    part.replace(path)
