"""The kinds of schedulers, by the algorithm that a spec names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from experiments.schedulers.kind import SchedulerKind

_CLASSES = {
    "fifo": "Fifo",
    "asha": "Asha",
    "hyperband": "HyperBandKind",
    "median_stopping": "MedianStoppingKind",
    "pbt": "Pbt",
    "pb2": "Pb2",
    "pbt_replay": "PbtReplay",
    "resource_changing": "ResourceChanging",
}
"""The class of each kind; its module has the algorithm's name, and is imported when it is used."""


def scheduler_kind(options: Any) -> SchedulerKind[Any]:
    """Return the kind of a `scheduler` section, with these options."""
    name = options.algorithm
    kind: type[SchedulerKind[Any]] = getattr(import_module(f"{__package__}.{name}"), _CLASSES[name])
    return kind(options)
