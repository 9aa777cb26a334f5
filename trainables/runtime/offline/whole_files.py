"""Files that appear whole or not at all, whatever kills their writer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import pyarrow.fs as pa_fs

from trainables.runtime.offline.episode import DataError


class WholeFile:
    """A new file in a folder, written under another name until it is whole.

    While it is written it is `.<name>.part`: readers pass over such names. A killed writer leaves
    it behind.

    Args:
        folder: Where the file will lie: a path, or one of `filesystem`. Made if it is not there.
        prefix: What its name begins with; a number follows that no file there has.
        suffix: What its name ends with, e.g. `.parquet`.
        filesystem: The filesystem of the folder; None: the local one.

    Attributes:
        path: What it will be called.
        stream: To write into.

    Raises:
        DataError: if the folder cannot be written to.
    """

    path: str
    stream: IO[bytes]

    def __init__(
        self,
        folder: str | Path,
        prefix: str,
        suffix: str,
        filesystem: pa_fs.FileSystem | None = None,
    ):
        self._filesystem = None if isinstance(filesystem, pa_fs.LocalFileSystem) else filesystem
        self._folder = str(folder)
        try:
            self._open(prefix, suffix)
        except OSError as error:
            raise DataError(f"{folder} cannot be written to: {error}") from None

    def close(self) -> None:
        """Make it appear under its name, with all that was written on the disk."""
        if self._filesystem is not None:
            self.stream.close()
            self._filesystem.move(self._part, self.path)
            return
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        os.rename(self._part, self.path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:  # the name is on the disk, too
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Leave nothing of it."""
        self.stream.close()
        if self._filesystem is not None:
            self._filesystem.delete_file(self._part)
        else:
            os.unlink(self._part)

    def _open(self, prefix: str, suffix: str) -> None:
        number = 0
        if self._filesystem is not None:
            self._filesystem.create_dir(self._folder)
            folder = self._filesystem.get_file_info(pa_fs.FileSelector(self._folder))
            taken = {info.base_name for info in folder}
            while not taken.isdisjoint(_names(name := f"{prefix}-{number:06d}{suffix}")):
                number += 1
            self.path, self._part = (f"{self._folder}/{each}" for each in _names(name))
            self.stream = self._filesystem.open_output_stream(self._part)
            return
        os.makedirs(self._folder, exist_ok=True)
        while True:
            names = _names(f"{prefix}-{number:06d}{suffix}")
            self.path, self._part = (os.path.join(self._folder, each) for each in names)
            number += 1
            if os.path.exists(self.path):
                continue
            try:  # whoever makes it first has the name
                made = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            self.stream = os.fdopen(made, "wb")
            if not os.path.exists(self.path):
                return
            self.discard()  # another writer ended with this name between the two looks


def _names(name: str) -> tuple[str, str]:
    """Return a file's name, and the one that it has until it is whole."""
    return name, f".{name}.part"


def is_unfinished(name: str) -> bool:
    """Return whether a file of that name is none yet: a writer's, or hidden."""
    return name.startswith((".", "_"))
