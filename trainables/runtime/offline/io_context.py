"""`IOContext`: what a reader or a writer of one's own is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IOContext:
    """What the callable that `input_` or `output` names is called with.

    Attributes:
        log_dir: The trial's folder.
        config: The algorithm's config.
        worker_index: Of the env runner that writes: 0 in the trial's own process, 1, 2, … for
            actors. 0 of what reads.
        worker: The env runner that writes; None of what reads.
    """

    log_dir: str
    config: Any
    worker_index: int = 0
    worker: Any = None

    @property
    def input_config(self) -> dict[str, Any]:
        """The setting of that name."""
        found: dict[str, Any] = self.config.input_config
        return found

    @property
    def output_config(self) -> dict[str, Any]:
        """The setting of that name."""
        found: dict[str, Any] = self.config.output_config
        return found
