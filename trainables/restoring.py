"""`restore` for trainables whose checkpoints are folders without pickle."""

from __future__ import annotations

from typing import Any


class RestoresFolders:
    """Part of a trainable: goes on from a checkpoint folder, and never unpickles one.

    Tune's own `restore` would unpickle a file that it finds in the folder.
    """

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a checkpoint: a folder, a Tune `Checkpoint`, or what `save` returned.

        Raises:
            CheckpointError: naming the folder and what is wrong with it.
        """
        checkpoint = getattr(checkpoint_path, "checkpoint", checkpoint_path)
        if hasattr(checkpoint, "as_directory"):
            with checkpoint.as_directory() as folder:
                self.load_checkpoint(folder)
        else:
            self.load_checkpoint(checkpoint)
        self._time_since_restore = 0.0
        self._iterations_since_restore = 0
        self._timesteps_since_restore = 0
        self._episodes_total = None
        self._restored = True

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote."""
        raise NotImplementedError
