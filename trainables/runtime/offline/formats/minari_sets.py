"""Where Minari's data sets lie, and what they say of themselves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.offline.episode import DataError

PREFIX = "minari:"
OURS = "tunescape"  # the key in a data set's metadata that has the spaces as we write them
_ID = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+")


def minari_package() -> ModuleType:
    """Return the package `minari`.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        import h5py  # noqa: F401 - most data sets are HDF5 files, which Minari needs it for
        import minari
    except ImportError as error:
        raise ConfigError(
            f"Minari's data sets need the extra `minari` ({error}): pip install 'tunescape[minari]'"
        ) from None
    package: ModuleType = minari
    return package


def minari_root() -> Path:
    """Return the folder of all local data sets: `MINARI_DATASETS_PATH`, or Minari's own."""
    chosen = os.environ.get("MINARI_DATASETS_PATH")
    return Path(chosen) if chosen else Path.home() / ".minari" / "datasets"


def found_set(name: str) -> Path:
    """Return the folder of a local data set, which has the folder `data`.

    Args:
        name: Its id, such as `D4RL/pen/human-v2`, or its folder.

    Raises:
        DataError: if there is no such one.
    """
    named, folder = minari_root() / name, Path(name).expanduser()
    for each in (named, folder):
        if (each / "data").is_dir():
            return each.absolute()
    if folder.is_absolute() or not _ID.fullmatch(name):
        raise DataError(f"{PREFIX}{name}: there is no folder {folder} with a Minari data set")
    known = sorted(
        path.parent.relative_to(minari_root()).as_posix() for path in minari_root().rglob("data")
    )
    raise DataError(
        f"{PREFIX}{name}: there is no such data set in {minari_root()}"
        f"{suggestion(name, known)}; get it by `minari download {name}`"
    )


def metadata_of(folder: Path, name: str) -> dict[str, Any]:
    """Return what a data set says of itself.

    Args:
        folder: See `found_set`.
        name: As the user wrote it, for messages.

    Raises:
        DataError: if that is damaged.
    """
    path = folder / "data" / "metadata.json"
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{PREFIX}{name}: {path} is unreadable: {error}") from None
    if not isinstance(metadata, dict):
        raise DataError(f"{PREFIX}{name}: {path} is no JSON object")
    return metadata


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the files of a data set, in order.

    Args:
        folder: See `found_set`.
        name: As the user wrote it, for messages.

    Raises:
        DataError: if something else lies among them: reading a pipe might never end, and what a
            linked folder holds would be no part of the digest.
    """
    inside = sorted((folder / "data").rglob("*"))
    for path in inside:
        if not path.is_file() and (path.is_symlink() or not path.is_dir()):
            raise DataError(
                f"{PREFIX}{name}: {path} is a pipe, a device, or a link to a folder or to nothing; "
                "allowed: files of data, and folders"
            )
    return [path for path in inside if path.is_file()]


def new_set(name: str) -> tuple[Path, str]:
    """Return the folder, and the id, of a data set that is to be written.

    Args:
        name: `minari:<id>` for one that Minari finds by its id; or any folder.

    Raises:
        ConfigError: for an id that is none.
        DataError: if it is there already.
    """
    root = minari_root().absolute()
    if name.startswith(PREFIX):
        folder = root / name.removeprefix(PREFIX)
    else:
        folder = Path(os.path.abspath(Path(name).expanduser()))
    inside = folder.is_relative_to(root)
    dataset_id = folder.relative_to(root).as_posix() if inside else folder.name
    if not _ID.fullmatch(dataset_id):
        if inside:
            raise ConfigError(
                f"{dataset_id!r} is no id of a Minari data set; allowed: letters, digits, '-' and "
                "'_', folders by '/', and a version at the end, such as 'cartpole/expert-v0'"
            )
        dataset_id = re.sub(r"[^-\w]", "_", dataset_id) + "-v0"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: there is something already; a Minari data set is written anew")
    return folder, dataset_id
