"""Digests of files' contents, remembered as long as the files have not changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from trainables.core.logs import logger
from trainables.runtime.offline.cache import cache_folder
from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.file_set import FileSet

_CHUNK = 2**20
_TOLD_FROM = 2**30  # bytes: what takes more than a second or two is said
_SETTLED_S = 2.0  # a file may change once more within the resolution of its time


def digest_of(files: FileSet, memory: Path | None = None) -> str:
    """Return a hexadecimal digest of what files hold, in their order.

    Contents of local files are read once: digests are remembered by path, device, inode, size and
    the times of modification and of change, so that the next trial need not read them again. A
    program can set the former back, as `cp -p` and `touch -r` do, but not the latter: the system
    notes it at each write. Of remote files it is their size and time of change that count, and
    their names: reading them would be a second download.

    Args:
        files: The files.
        memory: The folder where digests are remembered; None: below the cache of data sets.

    Raises:
        DataError: if a file cannot be read.
    """
    whole = hashlib.sha256()
    for index, name in enumerate(files.files):
        if files.filesystem is None:
            whole.update(_digest_of_local(name, memory or cache_folder() / "digests").encode())
        else:
            info = files.filesystem.get_file_info(files.path(index))
            whole.update(f"{name}\0{info.size}\0{info.mtime_ns}\n".encode())
    return whole.hexdigest()


def _digest_of_local(path: str, memory: Path) -> str:
    try:
        stat = os.stat(path)
        parts = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        key = "\0".join(map(str, (os.path.realpath(path), *parts)))
        note = memory / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        known = _remembered(note)
        if known is not None:
            return known
        if stat.st_size > _TOLD_FROM:
            logger.info("reading %s (%.1f GB) for its digest", path, stat.st_size / 1e9)
        with open(path, "rb", buffering=0) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if time.time() - stat.st_ctime > _SETTLED_S:
        _remember(note, digest)
    return digest


def _remembered(note: Path) -> str | None:
    try:
        digest = json.loads(note.read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return digest if isinstance(digest, str) else None


def _remember(note: Path, digest: str) -> None:
    """Write a digest down, if there is room to: it can always be made again."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        part = note.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({"sha256": digest}), encoding="utf-8")
        os.replace(part, note)
    except OSError as error:
        logger.debug("the digest of a file is not remembered: %s", error)
