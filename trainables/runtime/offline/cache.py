"""Folders of what is made once from data: whole or not there, by one process of those that ask."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainables.core.logs import logger
from trainables.runtime.offline.episode import DataError

VARIABLE = "TUNESCAPE_DATA_CACHE"
"""The environment variable with the folder that converted data lie in."""

_CONTENTS = "contents.json"  # written last: what is in a folder, and how large its files are
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def cache_folder() -> Path:
    """Return the folder that converted data lie in unless a caller says another one."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tunescape" / "data"


def made_once(folder: Path, what: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return what is noted of a folder, which is made first if it is not there, or damaged.

    Of several processes that ask at once one makes it, and the others wait. One that is killed
    leaves nothing that is taken for whole.

    Args:
        folder: Where it lies.
        what: What it is made of, for messages.
        make: Fills a folder that is empty; returns what to note of it, for JSON.

    Raises:
        DataError: if the folder cannot be written, or the disk is full. Nothing is left then.
    """
    found = _contents(folder)
    if found is not None:
        return found
    with writing(folder.parent, what):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder, what):
            found = _contents(folder)
            if found is not None:  # another process has made it meanwhile
                return found
            if folder.exists():
                logger.warning("%s is damaged: it is made again from %s", folder, what)
                shutil.rmtree(folder)
            return _make(folder, make)


def _make(folder: Path, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    part.mkdir()
    try:
        noted = make(part)
        sizes = {path.name: path.stat().st_size for path in part.iterdir()}
        with (part / _CONTENTS).open("w", encoding="utf-8") as file:
            json.dump({"files": sizes, "noted": noted}, file)
            file.flush()
            os.fsync(file.fileno())
        _sync(part)
        part.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return noted


def make_file(path: Path, what: str, make: Callable[[Path], None]) -> None:
    """Make one more file in such a folder, unless it is there.

    Args:
        path: What it will be called.
        what: What it is made of, for messages.
        make: Writes a file of another name.

    Raises:
        DataError: as `made_once`.
    """
    if path.exists():
        return
    with writing(path.parent, what), locked(path.parent, what):
        if path.exists():
            return
        part = path.with_name(f"{path.name}.part")
        try:
            make(part)
            part.rename(path)
            _sync(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def writing(folder: Path, what: str) -> Iterator[None]:
    """Turn errors of writing to a folder into one that says what to do."""
    try:
        yield
    except OSError as error:
        problem = "the disk is full" if error.errno in _FULL else str(error)
        raise DataError(
            f"{what} cannot be converted into {folder}: {problem}; allowed: a folder with room, "
            f"set by the environment variable {VARIABLE}"
        ) from error


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a folder, which no other process holds meanwhile."""
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process that converts %s", what)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing gives it back, however this process ends


def _contents(folder: Path) -> dict[str, Any] | None:
    """Return what is noted of a folder, None if it is not there or not whole."""
    try:
        contents = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
        sizes: dict[str, int] = contents["files"]
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
        noted: dict[str, Any] = contents["noted"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return noted if whole and isinstance(noted, dict) else None


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
