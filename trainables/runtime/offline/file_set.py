"""Files that are read together, local or remote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs

from trainables.runtime.offline.episode import DataError


@dataclass(frozen=True)
class FileSet:
    """Files of one data source.

    Attributes:
        name: As the user wrote the source, for messages.
        files: Absolute paths, or URLs, in the order that they are read in.
        filesystem: Where the files are; None: the local disk.
        paths: The files as `filesystem` names them; empty: as `files` does.

    Raises:
        DataError: for a name that is no text, which neither Arrow nor a log could have.
    """

    name: str
    files: Sequence[str]
    filesystem: pa_fs.FileSystem | None = None
    paths: Sequence[str] = ()

    def __post_init__(self) -> None:
        for file in self.files:
            try:
                file.encode()
            except UnicodeEncodeError:
                raise DataError(f"{file!r}: the name is no UTF-8; allowed: another one") from None

    def open(self, index: int) -> Any:
        """Open a file to read at any place of it.

        Raises:
            DataError: if it cannot be read.
        """
        try:
            if self.filesystem is None:
                return pa.OSFile(self.files[index])
            return self.filesystem.open_input_file(self.path(index))
        except OSError as error:
            raise DataError(f"{self.files[index]}: cannot be read: {error}") from None

    def path(self, index: int) -> str:
        """Return a file as its filesystem names it."""
        return (self.paths or self.files)[index]

    def part(self, numbers: Collection[int]) -> FileSet:
        """Return some of the files, by their numbers, in the order of all."""
        chosen = sorted(numbers)
        paths = [self.paths[number] for number in chosen] if self.paths else ()
        return replace(self, files=[self.files[number] for number in chosen], paths=paths)
