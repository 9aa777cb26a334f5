"""CPU, memory, disk, network and GPU use of the driver's machine, by the clock."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

INTERVAL_VARIABLE = "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
_INTERVAL_S = 10.0


class SystemMetrics:
    """Samples this machine on a thread of its own: one for a sweep, however many trials it has.

    MLflow's own monitor gives up at the first request that fails, and waits for each; so its
    readings are used, under its names, and handed to the queue.

    Args:
        submit: A function that takes each sample: values by metric name, `system/...`.
        interval_s: Seconds between samples; None takes MLflow's environment variable
            MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL, or 10.
    """

    def __init__(
        self, submit: Callable[[dict[str, float]], None], interval_s: float | None = None
    ) -> None:
        self._submit = submit
        self._interval_s = interval_s or float(os.environ.get(INTERVAL_VARIABLE) or _INTERVAL_S)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="system-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after a last sample, so that a short sweep has one, too."""
        self._ended.set()
        self._thread.join(timeout=5.0)

    def _work(self) -> None:
        try:
            monitors = _monitors()
            while True:
                is_last = self._ended.wait(self._interval_s)
                self._submit(_sample(monitors))
                if is_last:
                    return
        except Exception as error:  # a reading that fails, a missing library
            logger.warning("No system metrics are logged: %s. The sweep continues.", error)


def _monitors() -> list[Any]:
    import ray  # noqa: F401 - it brings psutil, which MLflow uses and does not require
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
    from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

    monitors: list[Any] = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    with contextlib.suppress(Exception):  # no GPU, no driver, or nvidia-ml-py is not installed
        monitors.append(GPUMonitor())
    return monitors


def _sample(monitors: list[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for monitor in monitors:
        monitor.collect_metrics()
        found |= {f"system/{name}": float(v) for name, v in monitor.aggregate_metrics().items()}
        monitor.clear_metrics()
    return found
