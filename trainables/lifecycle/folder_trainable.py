"""`FolderTrainable`: its checkpoints are folders without pickle, and it ends with `stop`."""

from __future__ import annotations

import functools
import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from ray import tune
from ray.train._internal.session import _TrainingResult

from trainables.core.checkpoint import AnyCheckpoint, local_folder
from trainables.core.own_folders import may_note, note_own

P = ParamSpec("P")
R = TypeVar("R")


class StoppedError(RuntimeError, AttributeError):
    """An algorithm was stopped, and cannot do what it is asked for."""


def running(method: Callable[P, R]) -> Callable[P, R]:
    """Refuse a method's call after `stop()`, before the method begins."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        trainable: Any = args[0]
        trainable._refuse_if_ended(f"{method.__name__}()")
        return method(*args, **kwargs)

    return call


class SavedCheckpoint(str, _TrainingResult):
    """What `save` returns outside of Tune: the folder's path, and `.checkpoint` and `.metrics`.

    One generation of the reference returned a path, the next a result: it is either.
    """

    def __new__(cls, checkpoint: Any, metrics: dict[str, Any] | None = None) -> SavedCheckpoint:
        """The text is the folder's path."""
        return super().__new__(cls, getattr(checkpoint, "path", checkpoint))


class FolderTrainable(tune.Trainable):
    """A Tune `Trainable` that goes on from a checkpoint folder, and never unpickles one.

    Tune's own `restore` would unpickle a file that it finds in the folder.
    """

    _why_ended: str | None = None
    _is_stopped = False

    @running
    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Write a checkpoint.

        Args:
            checkpoint_dir: A folder, made if missing; None: a new one in the temporary folder.

        Returns:
            The folder's path, which has `.checkpoint.path`, too. In a trial, where only Tune calls
            it, Tune's own result.
        """
        is_mine = checkpoint_dir is None or may_note(Path(checkpoint_dir), "checkpoint")
        result: _TrainingResult = super().save(checkpoint_dir)
        stored = getattr(result.checkpoint, "path", "")
        if is_mine and os.path.isdir(stored):  # else it is in some other storage
            note_own(Path(stored))
        if self._storage is not None:  # Tune stores results in a way that takes a str for a str
            return result
        return SavedCheckpoint(result.checkpoint, result.metrics)

    @running
    def restore(self, checkpoint_path: AnyCheckpoint) -> None:
        """Go on from a checkpoint: a folder, Ray's `Checkpoint` or `Result`, or what `save` gave.

        Raises:
            CheckpointError: naming the folder and what is wrong with it.
        """
        with local_folder(checkpoint_path) as folder:
            self.load_checkpoint(folder)  # type: ignore[arg-type]  # Tune says a dict
        self._time_since_restore = 0.0
        self._iterations_since_restore = 0
        self._timesteps_since_restore = 0
        self._episodes_total = None
        self._restored = True

    def stop(self) -> None:
        """Close environments and end actors. `get_policy` and `get_weights` still answer."""
        try:
            super().stop()
        finally:
            if self._storage is None:
                _remove_empty(self.logdir)
            name = type(self).__name__
            self._is_stopped = True
            self._why_ended = (
                "it was stopped (by stop(), or at the end of its with block); build another one, "
                f"or {name}.from_checkpoint(folder) to go on"
            )

    @property
    def own_trial_id(self) -> str | None:
        """The id of the trial that this is; None outside of Tune."""
        return self.trial_id if self._trial_info else None

    @property
    def trial_folder(self) -> Path:
        """Where the files of the trial go. Ray's own working folder of it is a temporary one."""
        storage: Any = self._storage
        is_local = storage is not None and storage.storage_filesystem.type_name == "local"
        return Path(storage.trial_fs_path if is_local else self.logdir)

    def _setup_logdir(self) -> None:
        if self._storage is None:  # outside Tune: not in the user's home
            folder = tempfile.mkdtemp(prefix="tunescape-")
            self._logdir = folder  # type: ignore[assignment]
            weakref.finalize(self, _remove_empty, folder)  # where nobody calls `stop`
        else:
            super()._setup_logdir()

    def _refuse_if_ended(self, called: str) -> None:
        """Raise if there is nothing to work with.

        Raises:
            StoppedError: naming the method, and what to do instead.
        """
        if self._why_ended is not None:
            raise StoppedError(f"{type(self).__name__}.{called}: {self._why_ended}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _remove_empty(folder: str) -> None:
    """Remove a log folder, unless something was written into it."""
    with suppress(OSError):
        os.rmdir(folder)
