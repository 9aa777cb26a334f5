"""Sweep snapshots that are written whole or not at all.

Tune stages what its driver writes (trial states, the searcher's and the callbacks' states, each
trial's `result.json`) in a temporary folder and then copies it, file by file, over the sweep's
folder. A driver killed while it copies leaves half a file, or files that do not belong together.

`SnapshotSyncer` takes the place of that copy for sweeps in a local folder. It puts all that changed
into one transaction folder, commits it by renaming that folder, and only then applies it. Applying
it again changes nothing, so `reconcile` completes a transaction that a kill cut short. (A kill, not
a power cut: files are not flushed to the disk, which would cost more than it is worth here.)
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

_PREPARED = ".snapshot-prepared"  # being written; worthless after a kill
_COMMITTED = ".snapshot-committed"  # complete; to be applied
_MANIFEST = "manifest.json"
# Files that only grow: of these, what is new is added instead of copying all of it each time.
_APPENDED = ("result.json", "progress.csv", "events.out.tfevents")


class SnapshotSyncer:
    """Copies Tune's staging folder to the sweep's folder in transactions.

    It has the methods that Tune's experiment checkpoint manager calls on its syncer.

    Args:
        staging_dir: Tune's staging folder. Its top-level files at this moment came from the sweep's
            folder (Tune downloads them when it resumes) and are not copied back.
        held: Returns the names of trial folders to leave out of the copy being made.

    Attributes:
        failed: Whether the last copy of all could not be made: Tune takes no note of that.
    """

    def __init__(self, staging_dir: str | Path, held: Callable[[], set[str]] = set) -> None:
        self._held = held
        self._copied: dict[str, os.stat_result] = {}
        self._reported = False
        self.failed = False
        self._touched: set[str] | None = None  # folders that may have changed; None is all
        staging = Path(staging_dir)
        if staging.is_dir():
            self._copied = {p.name: p.stat() for p in staging.iterdir() if p.is_file()}

    def touch(self, folder: str) -> None:
        """Note that files in a trial's folder may have changed since the last copy of all."""
        if self._touched is not None:
            self._touched.add(folder)

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Copy all that changed in `local_dir`; return whether it did.

        A full or read-only disk is reported, not raised: an exception here would end the sweep.
        """
        held = self._held()
        folders = self._touched
        self.failed = not self._try(Path(local_dir), Path(remote_dir), folders, held)
        if not self.failed:
            self._touched = set(held)
        return not self.failed

    def sync_trial(self, local_dir: str, remote_dir: str, folder: str) -> bool:
        """Copy what changed in one trial's folder, held or not; return whether it did."""
        return self._try(Path(local_dir), Path(remote_dir), {folder}, set(), whole=False)

    def _try(
        self,
        staging: Path,
        sweep_dir: Path,
        folders: set[str] | None,
        held: set[str],
        *,
        whole: bool = True,
    ) -> bool:
        try:
            self._sync(staging, sweep_dir, _files(staging, folders, held, whole))
        except OSError as error:
            if not self._reported:
                logger.error(
                    "The sweep's state could not be saved to %s: %s. A kill now would lose what "
                    "happened since the last save.",
                    sweep_dir,
                    error,
                )
            self._reported = True
            return False
        self._reported = False
        return True

    def wait(self) -> None:
        """Return at once: `sync_up` has finished when it returns."""

    def _sync(
        self, staging: Path, sweep_dir: Path, files: Iterable[tuple[str, os.stat_result]]
    ) -> None:
        reconcile(sweep_dir)  # if applying the last one failed, e.g. on a full disk
        changed = [(name, now) for name, now in files if not _same(self._copied.get(name), now)]
        if not changed:
            return
        prepared = sweep_dir / _PREPARED
        prepared.mkdir(parents=True)
        manifest: list[dict[str, Any]] = []
        for number, (name, now) in enumerate(changed):
            offset = self._offset(name, now, sweep_dir / name)
            try:
                _copy(staging / name, prepared / str(number), offset, now.st_size)
            except FileNotFoundError:
                if (staging / name).exists():
                    raise
                continue  # another process has taken it away since
            manifest.append({"file": str(number), "target": name, "offset": offset})
        (prepared / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        os.rename(prepared, sweep_dir / _COMMITTED)
        _apply(sweep_dir)
        self._copied.update(changed)

    def _offset(self, name: str, now: os.stat_result, target: Path) -> int | None:
        """Return from which byte on a file that only grows is to be added; None copies it all."""
        before = self._copied.get(name)
        if before is None or not Path(name).name.startswith(_APPENDED):
            return None
        grown = before.st_ino == now.st_ino and before.st_size <= now.st_size
        return (
            before.st_size
            if grown and target.is_file() and target.stat().st_size == before.st_size
            else None
        )


def reconcile(sweep_dir: str | os.PathLike[str]) -> bool:
    """Complete the snapshot of a sweep that was killed while it was being written.

    Call it before `tune.Tuner.restore` or anything else that reads a sweep that may have been
    killed. A sweep that ended well, and a remote one, is left as it is.

    Args:
        sweep_dir: The sweep's folder, `runs/<name>`.

    Returns:
        Whether there was something to complete.
    """
    folder = Path(sweep_dir)
    shutil.rmtree(folder / _PREPARED, ignore_errors=True)
    if not (folder / _COMMITTED).is_dir():
        return False
    _apply(folder)
    return True


def _apply(sweep_dir: Path) -> None:
    """Move the committed files to their places; safe to repeat after being cut short."""
    committed = sweep_dir / _COMMITTED
    manifest = committed / _MANIFEST
    if manifest.is_file():  # else it was cut short while the folder was being removed
        for entry in json.loads(manifest.read_text(encoding="utf-8")):
            source, target = committed / entry["file"], sweep_dir / entry["target"]
            if not source.is_file():
                continue  # moved before the kill
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry["offset"] is None:
                os.replace(source, target)
            else:
                with target.open("r+b") as stream:
                    stream.truncate(entry["offset"])
                    stream.seek(entry["offset"])
                    stream.write(source.read_bytes())
        manifest.unlink()
    shutil.rmtree(committed)


def _files(
    staging: Path, folders: set[str] | None, held: set[str], whole: bool
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path below `staging` and stat of each file that is to be copied.

    Args:
        staging: Tune's staging folder.
        folders: The trials' folders to look into; None is all.
        held: The trials' folders to leave out.
        whole: Whether the files beside those folders are to be copied, too.
    """
    left = [""] if whole else []
    if folders is not None:
        left += [f"{name}/" for name in folders - held if (staging / name).is_dir()]
    while left:
        folder = left.pop()
        try:
            entries = os.scandir(staging / folder)
        except FileNotFoundError:  # another process has taken it away since
            if folder.count("/") > 1:
                continue
            raise
        with entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if name not in held and (folder or folders is None):
                        left.append(f"{name}/")
                # Tune's own half-written files start with a dot, its file locks end in .lock.
                elif not entry.name.startswith(".") and not entry.name.endswith(".lock"):
                    found = _stat_of_file(entry.path)
                    if found is not None:
                        yield name, found


def _stat_of_file(path: str) -> os.stat_result | None:
    """Return what there is to know of a file; None of what is none, such as a link to a folder.

    Trackers keep more than files in a trial's folder (W&B: `latest-run`), and take files away.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a link to nothing, or gone since the folder was listed
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _same(before: os.stat_result | None, now: os.stat_result) -> bool:
    return before is not None and (
        (before.st_mtime_ns, before.st_size, before.st_ino)
        == (now.st_mtime_ns, now.st_size, now.st_ino)
    )


def _copy(source: Path, target: Path, offset: int | None, size: int) -> None:
    """Copy the bytes from `offset` to `size`: what a logger adds meanwhile waits its turn."""
    start = offset or 0
    with source.open("rb") as stream:
        stream.seek(start)
        target.write_bytes(stream.read(size - start))
