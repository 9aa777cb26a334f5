"""Where a checkpoint lies: a path, Ray's `Checkpoint`, or what holds one, as a local folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from trainables.core.checkpoint import CheckpointError


class StoredFolder(Protocol):
    """A folder in some storage, as Ray's `Checkpoint` is; this package's core does without Ray."""

    path: str

    def as_directory(self) -> AbstractContextManager[str]:
        """Give the folder on this machine: itself, or a copy for as long as it is needed."""
        ...


class HasCheckpoint(Protocol):
    """What holds a checkpoint: a result of Tune, and what `save` returned."""

    @property
    def checkpoint(self) -> Any:
        """The checkpoint; None if there is none."""
        ...


AnyCheckpoint = str | os.PathLike[str] | StoredFolder | HasCheckpoint


@contextmanager
def local_folder(checkpoint: AnyCheckpoint) -> Iterator[Path]:
    """Give the folder of a checkpoint on this machine; one that lies elsewhere is fetched.

    Raises:
        CheckpointError: if it is no checkpoint, or cannot be fetched.
    """
    found: Any = getattr(checkpoint, "checkpoint", checkpoint)
    if not hasattr(found, "as_directory"):  # first: Ray's is an os.PathLike that raises
        if isinstance(found, (str, os.PathLike)):
            yield Path(found)
            return
        raise CheckpointError(
            f"a checkpoint is a folder, or Ray's Checkpoint of one, not a {type(found).__name__}"
        )
    stored: AbstractContextManager[str] = found.as_directory()
    try:
        folder = stored.__enter__()
    except OSError as error:
        raise CheckpointError(f"checkpoint {found.path} cannot be fetched: {error}") from error
    try:
        yield Path(folder)
    finally:
        stored.__exit__(None, None, None)
