"""`DataSet`: recorded experience as mapped columns, converted once and shared by processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.data.space_json import space_to_json
from trainables.core.data.spaces import space_mismatch
from trainables.core.logs import logger
from trainables.runtime.offline.cache import cache_folder, made_once
from trainables.runtime.offline.columns import map_column
from trainables.runtime.offline.conversion import (
    COUNT,
    EPISODES,
    column_path,
    column_types,
    convert,
)
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.source import Source

_VERSION = 2  # of the folders: another one is another folder
_NOTABLE_BYTES = 2**30  # of a conversion that is told of even where little is logged
_NOTABLE_SECONDS = 10.0


@dataclass(frozen=True)
class DataSet:
    """Recorded experience, laid out as a replay buffer has the time of one slot.

    An episode's rows come one behind another, then one row that is not valid and holds its last
    observation. All arrays are read-only and lie in files: reading one page of them costs memory
    that the system takes back.

    Attributes:
        name: Of its source, as the user wrote it.
        digest: Of its contents and spaces: equal digests are equal data.
        spaces: What observations and actions are of.
        folder: Where it lies.
        num_rows: Rows of each column.
        num_steps: Those that are valid, i.e. steps that were recorded.
        num_episodes: Episodes, and pieces of them whose beginning or end is missing.
        nbytes: On the disk.
        files: Where episodes were read from.
        columns: By name, `[num_rows, ...]`: obs, actions (as the environment took them), rewards,
            logp (NaN where nobody noted it), terminated, truncated, valid, is_first.
        next_valid: Whether the row after is valid, `[num_rows]`.
        episodes: A record for each, see `EPISODES`.
        first_rows: The first row of each episode, and the number of rows, `[num_episodes + 1]`.
        steps_before: The steps before each episode, `[num_episodes]`.
    """

    name: str
    digest: str
    spaces: DataSpaces
    folder: Path
    num_rows: int
    num_steps: int
    num_episodes: int
    nbytes: int
    files: tuple[str, ...]
    columns: dict[str, np.ndarray] = field(repr=False)
    next_valid: np.ndarray = field(repr=False)
    episodes: np.ndarray = field(repr=False)
    first_rows: np.ndarray = field(repr=False)
    steps_before: np.ndarray = field(repr=False)


def load_data_set(
    source: Source, spaces: DataSpaces | None = None, cache: Path | None = None
) -> DataSet:
    """Return what a source has recorded, converted first if that was not done before.

    Args:
        source: What to read.
        spaces: What it must be of; None: what its files state, else what they let infer.
        cache: The folder that converted data lie in; None: see `cache_folder`.

    Raises:
        DataError: naming what is wrong with the data, or with the folder.
    """
    spaces = _spaces(source, spaces)
    digest = _digest(source, spaces)
    folder = (cache_folder() if cache is None else cache) / digest

    def make(empty: Path) -> dict[str, Any]:
        start = time.monotonic()
        noted = convert(source, spaces, empty)
        if _digest(source, spaces) != digest:
            raise DataError(
                f"{source.name} has changed while it was read; needed: files that nobody writes to"
            )
        seconds, size = time.monotonic() - start, _size(empty)
        say = logger.info
        if seconds > _NOTABLE_SECONDS or size > _NOTABLE_BYTES:
            say = logger.warning
        say(
            "%s: %d steps of %d episodes converted in %.0f s; they take %.1f MB on the disk, in %s",
            *(source.name, noted["num_steps"], noted["num_episodes"], seconds, size / 1e6, folder),
        )
        return noted

    try:
        return _mapped(source.name, digest, spaces, folder, made_once(folder, source.name, make))
    except (ValueError, OSError) as error:
        if isinstance(error, DataError):
            raise
        logger.warning("%s is damaged (%s): it is made again", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
    return _mapped(source.name, digest, spaces, folder, made_once(folder, source.name, make))


def _mapped(
    name: str, digest: str, spaces: DataSpaces, folder: Path, noted: dict[str, Any]
) -> DataSet:
    counts: list[Any] = [noted.get(key) for key in ("num_rows", "num_steps", "num_episodes")]
    num_rows, num_steps, num_episodes = counts
    files = noted.get("files")
    if not all(type(count) is int for count in counts) or num_rows != num_steps + num_episodes:
        raise ValueError(f"it is said to have {noted}")
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ValueError(f"it is said to be of the files {files}")
    size = _size(folder)
    at_random = size > _memory() / 2
    columns = {
        column: map_column(
            column_path(folder, column), kind, num_rows + (column == "valid"), at_random=at_random
        )
        for column, kind in column_types(spaces).items()
    }
    next_valid = columns["valid"][1:]
    columns["valid"] = columns["valid"][:-1]
    episodes, first_rows, steps_before = (
        map_column(column_path(folder, column), kind, length, at_random=False)
        for column, kind, length in (
            ("episodes", EPISODES, num_episodes),
            ("first_rows", COUNT, num_episodes + 1),
            ("steps_before", COUNT, num_episodes),
        )
    )
    return DataSet(
        name,
        digest,
        spaces,
        folder,
        num_rows,
        num_steps,
        num_episodes,
        size,
        tuple(files),
        columns,
        next_valid,
        episodes,
        first_rows,
        steps_before,
    )


def _spaces(source: Source, given: DataSpaces | None) -> DataSpaces:
    stated = source.spaces()
    if given is None:
        return source.infer_spaces() if stated is None else stated
    if stated is not None:
        for what, mine, theirs in zip(("obs", "actions"), given, stated, strict=True):
            problem = space_mismatch(mine, theirs)
            if problem is not None:
                where = source.files[0] if source.files else source.name
                raise DataError(
                    f"{where}, column {what!r}: it states {theirs}, which does not fit {mine}: "
                    f"{problem}; allowed: other bounds"
                )
    return given


def _digest(source: Source, spaces: DataSpaces) -> str:
    """Return a digest of contents, how they are read, spaces and layout, 32 digits."""
    parts = [_VERSION, asdict(source.options), *map(space_to_json, spaces)]
    described = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(f"{source.digest()} {described}".encode()).hexdigest()[:32]


def _size(folder: Path) -> int:
    """Return the bytes of a folder's columns, without what is made of them later."""
    return sum(path.stat().st_size for path in folder.glob("*.arrow"))


def _memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
