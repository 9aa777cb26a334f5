"""`save` and `restore` for trainables whose checkpoints are folders without pickle."""

from __future__ import annotations

from typing import Any

from ray.train._internal.session import _TrainingResult

from trainables.core.checkpoint_folder import AnyCheckpoint, local_folder
from trainables.lifecycle.stopping import Stopping, running


class SavedCheckpoint(str, _TrainingResult):
    """What `save` returns outside of Tune: the folder's path, and `.checkpoint` and `.metrics`.

    One generation of the reference returned a path, the next a result: it is either.
    """

    def __new__(cls, checkpoint: Any, metrics: dict[str, Any] | None = None) -> SavedCheckpoint:
        """The text is the folder's path."""
        return super().__new__(cls, getattr(checkpoint, "path", checkpoint))


class RestoresFolders(Stopping):
    """Part of a trainable: goes on from a checkpoint folder, and never unpickles one.

    Tune's own `restore` would unpickle a file that it finds in the folder.
    """

    _storage: Any

    @running
    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Write a checkpoint.

        Args:
            checkpoint_dir: A folder, made if missing; None: a new one in the temporary folder.

        Returns:
            The folder's path, which has `.checkpoint.path`, too. In a trial, where only Tune calls
            it, Tune's own result.
        """
        result: _TrainingResult = super().save(checkpoint_dir)  # type: ignore[misc]
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
            self.load_checkpoint(folder)
        self._time_since_restore = 0.0
        self._iterations_since_restore = 0
        self._timesteps_since_restore = 0
        self._episodes_total = None
        self._restored = True

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote."""
        raise NotImplementedError
