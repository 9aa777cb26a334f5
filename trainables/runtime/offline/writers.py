"""Writers of recorded experience, by format."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.filesystems import filesystem_of, is_url
from trainables.runtime.offline.locating import absolute
from trainables.runtime.offline.source import EpisodeWriter

WRITERS = {
    "parquet": "trainables.runtime.offline.formats.parquet:ParquetWriter",
    "json": "trainables.runtime.offline.formats.json_lines:JsonLinesWriter",
    "minari": "trainables.runtime.offline.formats.minari:MinariWriter",
}
MAX_FILE_SIZE = 64 * 2**20


def make_writer(
    folder: Path | str,
    spaces: DataSpaces,
    *,
    format: str = "parquet",
    compress_columns: Sequence[str] = (),
    max_file_size: int = MAX_FILE_SIZE,
    max_rows_per_file: int | None = None,
    prefix: str = "data",
    env_id: str | None = None,
) -> EpisodeWriter:
    """Return what writes episodes to files, whole ones or none.

    Args:
        folder: Where the files will lie: a path, or a URL of a filesystem that pyarrow knows.
        spaces: What is written.
        format: `parquet`, `json` or `minari`.
        compress_columns: The columns to compress.
        max_file_size: Bytes from which on a file is full.
        max_rows_per_file: Most rows of a file; None: any number.
        prefix: What the files' names begin with; writers to the same folder may share it.
        env_id: The environment, which the files name.

    Raises:
        ConfigError: for an unknown format, or a limit that is none.
        DataError: if the folder cannot be reached.
    """
    if format not in WRITERS:
        raise ConfigError(
            f"the format {format!r} of output is not known; allowed: {[*WRITERS]}"
            f"{suggestion(format, WRITERS)}"
        )
    for name, limit in (("size", max_file_size), ("rows_per_file", max_rows_per_file)):
        if limit is not None and limit < 1:
            raise ConfigError(f"a file of {name} {limit} is not allowed; allowed: at least 1")
    filesystem, path = None, str(folder)
    if is_url(path):
        filesystem, path = filesystem_of(path)
    elif format != "minari":
        path = absolute(path)
    module, _, name = WRITERS[format].partition(":")
    writer_class = getattr(importlib.import_module(module), name)
    extra = {} if filesystem is None else {"filesystem": filesystem}
    if extra and format == "minari":
        raise ConfigError(f"Minari's data sets are local folders, not {folder}")
    made: EpisodeWriter = writer_class(
        path,
        spaces,
        compress_columns=compress_columns,
        max_file_size=max_file_size,
        max_rows_per_file=max_rows_per_file,
        prefix=prefix,
        env_id=env_id,
        **extra,
    )
    return made
