"""The files that a path, a folder, a glob or a URL stands for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs

from trainables.core.paths import absolute as start_path
from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.file_set import FileSet
from trainables.runtime.offline.filesystems import filesystem_of, is_url, within
from trainables.runtime.offline.whole_files import is_unfinished

EXTENSIONS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv",),
    "json": (".json", ".jsonl", ".json.gz", ".jsonl.gz"),
}
_WILD = re.compile(r"[*?[]")
_LIST_S = 60.0
_MOST_FILES = 200_000  # in a folder: who gives more has given the root of a disk


def format_of(file: str) -> str | None:
    """Return the format that a file's name tells; None: none of those that are read."""
    name = file.lower()
    return next((each for each, ends in EXTENSIONS.items() if name.endswith(ends)), None)


def absolute(path: str) -> str:
    """Return a path, or a URL, as it holds wherever a trial works."""
    return path if is_url(path) else start_path(path)


def local_path(item: str) -> str:
    """Return the path of a local file, which may be given as a `file://` URL."""
    return unquote(urlsplit(item).path) if is_url(item) else absolute(item)


def located(
    items: list[str], format_: str | None, options: Mapping[str, Any]
) -> tuple[FileSet, str]:
    """Return the files of a data source, and their format.

    Args:
        items: Paths or URLs of files, of folders, which are searched with all folders in them, or
            globs (`**` stands for any folders). Their order counts; within one, names are sorted.
        format_: `parquet` or `json`; None: the names tell.
        options: Of the filesystem, see `filesystem_of`.

    Raises:
        DataError: if there is no file, or files of several formats.
    """
    name = items[0] if len(items) == 1 else f"[{items[0]}, …] ({len(items)} items)"
    roots = {_root(item) for item in items}
    if len(roots) > 1:
        raise DataError(
            f"{name}: its files are of several filesystems, {sorted(roots)}; allowed: one of them, "
            "or a source each in a dict with shares"
        )
    filesystem = filesystem_of(items[0], options)[0] if is_url(items[0]) else None
    paths = [path for item in items for path in _files(item, format_, filesystem)]
    scheme = "" if filesystem is None else f"{items[0].split('://')[0]}://"
    files = [scheme + path for path in paths]
    formats = {format_ or format_of(file): file for file in reversed(files)}
    if len(formats) > 1:
        told = " and ".join(sorted(formats.values()))
        raise DataError(
            f"{name}: files of several formats lie together, {told}; allowed: one format a source: "
            "give a glob (`*.parquet`), or `format` in input_config"
        )
    found_format = next(iter(formats))
    if found_format is None:
        raise DataError(
            f"{files[0]}: its name tells no format; allowed: {_allowed()}, or `format` in "
            "input_config"
        )
    return FileSet(name, files, filesystem, paths), found_format


def _root(item: str) -> str:
    """Return what items of one filesystem have in common."""
    parts = urlsplit(item) if is_url(item) else None
    return "" if parts is None or parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"


def _files(item: str, format_: str | None, filesystem: pa_fs.FileSystem | None) -> list[str]:
    """Return the files of one item, as its filesystem names them."""
    if filesystem is None:
        return _local(item, local_path(item), format_)
    path = item.partition("://")[2].rstrip("/")
    return within(_LIST_S, item, lambda: _remote(item, path, format_, filesystem))


def _local(item: str, path: str, format_: str | None) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        found = _of_folder(item, _walk(item, path), format_)
        for name in found:
            if not os.path.isfile(name):  # to read it might never end
                raise DataError(
                    f"{name}: is no regular file, but a pipe, a device or a link to nothing; "
                    "allowed: files of data"
                )
        return found
    if _WILD.search(path):
        return _of_glob(item, [each for each in _matches(item, path) if os.path.isfile(each)])
    near = Path(path).parent
    where = "" if near.is_dir() else f": there is no folder {near}"
    raise DataError(f"{item}: there is no such file or folder ({path}){where}")


def _matches(item: str, path: str) -> list[str]:
    """Return what a glob matches; `**` does not go through links, which may lead in a circle."""
    begin = path.find("**")
    if begin < 0:
        return glob.glob(path)
    roots = glob.glob(os.path.dirname(path[:begin])) if begin else ["."]
    matches = _glob_regex(path).fullmatch
    return [name for root in roots for name in _walk(item, root) if matches(name)]


def _walk(item: str, path: str) -> list[str]:
    """Return all that lies in a folder, but in hidden ones."""
    names: list[str] = []
    for folder, inner, here in os.walk(path):
        inner[:] = sorted(name for name in inner if not is_unfinished(name))
        names += [os.path.join(folder, name) for name in here]
        if len(names) > _MOST_FILES:
            raise DataError(
                f"{item}: the folder has more than {_MOST_FILES:,} files; allowed: a folder of "
                "data, or a glob"
            )
    return names


def _remote(item: str, path: str, format_: str | None, filesystem: pa_fs.FileSystem) -> list[str]:
    wild = _WILD.search(path)
    folder = path if wild is None else path[: wild.start()].rpartition("/")[0]
    info = filesystem.get_file_info(folder)
    if info.type == pa_fs.FileType.File:
        return [path]
    if info.type == pa_fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no such file or folder: {folder}")
    listed = filesystem.get_file_info(pa_fs.FileSelector(folder, recursive=True))
    names = [each.path for each in listed if each.type == pa_fs.FileType.File]
    seen = [n for n in names if not any(map(is_unfinished, n[len(folder) :].split("/")[:-1]))]
    if wild is None:
        return _of_folder(item, seen, format_)
    matches = _glob_regex(path).fullmatch
    return _of_glob(item, [name for name in seen if matches(name)])


def _of_folder(item: str, names: list[str], format_: str | None) -> list[str]:
    """Return what is data in a folder: files that are whole, of a format that is read."""
    whole = [name for name in names if not is_unfinished(os.path.basename(name))]
    found = [name for name in whole if format_of(name) is not None]
    if format_ is not None:
        found = [name for name in whole if format_of(name) == format_] or whole
    elif {*map(format_of, found)} > {"csv"}:  # beside other data it is rather about them
        found = [name for name in found if format_of(name) != "csv"]
    if not found:
        there = f"; there: {sorted(map(os.path.basename, names))[:5]}" if names else ""
        raise DataError(f"{item}: the folder has no files of data; allowed: {_allowed()}{there}")
    return sorted(found)


def _of_glob(item: str, names: list[str]) -> list[str]:
    found = sorted(name for name in names if not is_unfinished(os.path.basename(name)))
    if not found:
        raise DataError(f"{item}: no file matches")
    return found


def _allowed() -> str:
    return ", ".join(end for ends in EXTENSIONS.values() for end in ends)


def _glob_regex(pattern: str) -> re.Pattern[str]:
    """Return what a glob matches, as the local ones do: `*` stays within a folder."""
    made, index = "", 0
    while index < len(pattern):
        rest = pattern[index:]
        if rest.startswith("**/"):
            made, index = f"{made}(?:.*/)?", index + 3
        elif rest.startswith("**"):
            made, index = f"{made}.*", index + 2
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            inner = rest[1:end].replace("\\", "\\\\")
            made += f"[{'^' + inner[1:] if inner[0] == '!' else inner}]"
            index += end + 1
        else:
            made += {"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0]))
            index += 1
    return re.compile(made)
