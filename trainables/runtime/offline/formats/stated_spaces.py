"""The spaces that recorded data state: as JSON, in a file's metadata or beside files."""

from __future__ import annotations

import json
import os
import posixpath
from pathlib import Path
from typing import Any

import pyarrow.fs as pa_fs

from trainables.core.data.space_json import space_from_json, space_to_json
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.file_set import FileSet

BESIDE = "_spaces"  # no data by its name, to our readers and to RLlib's, which take "*.json"
_FORMAT = 1
_MOST_BYTES = 64 * 2**20


def spaces_to_text(spaces: DataSpaces, env_id: str | None) -> str:
    """Return a description of spaces, and of the environment that they are of."""
    return json.dumps(
        {
            "format": _FORMAT,
            "env_id": env_id,
            "observation_space": space_to_json(spaces.observation),
            "action_space": space_to_json(spaces.action),
        }
    )


def spaces_from_text(text: str | bytes, file: str) -> DataSpaces:
    """Return the spaces that `spaces_to_text` described.

    Args:
        text: The description.
        file: Where it stands, for messages.

    Raises:
        DataError: if it is damaged, or of another version.
    """
    try:
        stated = json.loads(text)
        if stated["format"] != _FORMAT:
            raise ConfigError(f"they are of format {stated['format']}, this reads {_FORMAT}")
        names = ("observation_space", "action_space")
        return DataSpaces(*(space_from_json(stated[name]) for name in names))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError) as error:
        raise DataError(f"{file}: the spaces that it states are unreadable: {error}") from None


def spaces_beside(files: FileSet, index: int) -> DataSpaces | None:
    """Return the spaces that the folder of a file states; None: nothing.

    Raises:
        DataError: if what states them cannot be read.
    """
    path = _beside(files.path(index), files.filesystem)
    name = _beside(files.files[index], files.filesystem)
    return _read(path, name, files.filesystem or pa_fs.LocalFileSystem())


def state_beside(
    folder: Path | str,
    spaces: DataSpaces,
    env_id: str | None,
    filesystem: pa_fs.FileSystem | None = None,
) -> None:
    """State the spaces of the files in a folder, which is made if it is not there.

    Raises:
        DataError: if the folder states other ones, or cannot be written to.
    """
    folder = str(folder)
    store = filesystem or pa_fs.LocalFileSystem()
    path = f"{folder}/{BESIDE}"
    stated = _read(path, path, store)
    if stated is not None:
        check_same_spaces(f"new files for {folder}", spaces, stated, "the files that lie there")
        return
    part = f"{folder}/.{BESIDE}.{os.getpid()}.part"
    try:
        store.create_dir(folder)
        with store.open_output_stream(part) as stream:
            stream.write(spaces_to_text(spaces, env_id).encode())
        store.move(part, path)  # whole, whoever else does the same
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error}") from None


def check_same_spaces(file: str, mine: DataSpaces, theirs: DataSpaces, whose: str) -> None:
    """Raise if a file's spaces are others than those that are needed.

    Args:
        file: The file.
        mine: What it states.
        theirs: What is needed.
        whose: Who needs it.

    Raises:
        DataError: naming the column.
    """
    for column, one, other in (
        ("obs", mine.observation, theirs.observation),
        ("action", mine.action, theirs.action),
    ):
        problem = space_mismatch(one, other)
        if problem is not None:
            raise DataError(
                f"{file}, column {column!r}: it states {one}, but {other} comes from {whose}: "
                f"{problem}"
            )


def _beside(path: str, filesystem: Any) -> str:
    where = os.path if filesystem is None else posixpath
    return str(where.join(where.dirname(path), BESIDE))


def _read(path: str, name: str, store: pa_fs.FileSystem) -> DataSpaces | None:
    try:
        if store.get_file_info(path).type != pa_fs.FileType.File:
            return None
        with store.open_input_stream(path) as stream:
            return spaces_from_text(stream.read(_MOST_BYTES), name)
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error}") from None
