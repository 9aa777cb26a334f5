"""`MemoryTrackingCallbacks`: where the memory of a trial goes, as an example of callbacks."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import tracemalloc
from typing import Any

from trainables.core.errors import ConfigError
from trainables.runtime.callbacks.callbacks import Callbacks

logger = logging.getLogger("trainables")

_MB = 2**20


class MemoryTrackingCallbacks(Callbacks):
    """Reports resident memory in MB: `memory/driver_mb`, `custom_metrics/memory/env_runner_mb_max`.

    Needs psutil. A subclass that sets `num_allocations` also has each process log, at level INFO,
    the lines of code whose objects take the most memory. That makes Python much slower.

    Attributes:
        num_allocations: How many lines of code to log; 0: none, and nothing is traced.
    """

    num_allocations: int = 0

    def __init__(self) -> None:
        if importlib.util.find_spec("psutil") is None:
            raise ConfigError(f"{type(self).__name__} needs psutil: pip install psutil")
        if self.num_allocations and not tracemalloc.is_tracing():
            tracemalloc.start()

    def on_sample_end(self, *, metrics_logger: Any, env_runner: Any, **kwargs: Any) -> None:
        metrics_logger.log_value("memory/env_runner_mb", resident_mb(), reduce="max")
        if env_runner.worker_index > 0:  # else the driver tells
            self._tell(f"env runner {env_runner.worker_index}")

    def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
        result["memory/driver_mb"] = resident_mb()
        self._tell("the trial's process")

    def _tell(self, where: str) -> None:
        if not self.num_allocations:
            return
        lines = tracemalloc.take_snapshot().statistics("lineno")[: self.num_allocations]
        logger.info("largest allocations in %s: %s", where, "; ".join(map(str, lines)))


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    psutil: Any = importlib.import_module("psutil")
    return float(psutil.Process().memory_info().rss) / _MB
