"""`IOContext`: what a reader or a writer of one's own is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainables.core.errors import ConfigError


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

    def default_sampler_input(self) -> Any:
        """Raise: a reader does not step the environment.

        Raises:
            ConfigError: with what to write instead.
        """
        raise ConfigError(
            "default_sampler_input(): a reader cannot sample; for data and fresh samples give "
            "shares, e.g. input_={'sampler': 0.5, 'my_reader': 0.5}"
        )
