"""No scheduler: every trial runs until a stop criterion holds."""

from __future__ import annotations

from ray.tune.schedulers import FIFOScheduler

from experiments.schedulers.kind import Parts, SchedulerKind
from experiments.spec.scheduler_schema import FifoScheduler


class Fifo(SchedulerKind[FifoScheduler]):
    """Tune's own."""

    compares = False

    def build(self, parts: Parts) -> FIFOScheduler:
        return FIFOScheduler()
