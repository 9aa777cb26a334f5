"""Families of schedulers, and which sweeps' ends compare their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.results.searches import LEARNING

STOPPING = ("asha", "hyperband", "median_stopping")
"""Schedulers that stop trials early."""

POPULATION = ("pbt", "pb2")
"""Schedulers that change the settings of trials in mid-run."""

CHANGING = (*POPULATION, "pbt_replay")
"""All under which a trial has several settings, one after another."""


def section(value: Any, default: str) -> dict[str, Any]:
    """A spec's `search` or `scheduler` as a mapping; it may be a name alone, or missing."""
    if isinstance(value, Mapping) and "algorithm" in value:
        return dict(value)
    return {"algorithm": value if isinstance(value, str) else default}


def compares_settings(spec: Mapping[str, Any]) -> bool:
    """Whether the ends of a sweep's trials tell what each setting did.

    Not after a search that learns, which tries good levels more often and beside better values of
    the others; not where trials were stopped early, for their ends are at different budgets; and
    not where settings change in mid-run.

    Args:
        spec: The sweep's, as `spec.yaml` has it.
    """
    if section(spec.get("search"), "random")["algorithm"] in LEARNING:
        return False
    scheduler = section(spec.get("scheduler"), "fifo")
    # More CPUs make a trial faster; whether it runs to its end is the base scheduler's to say.
    decides = scheduler["algorithm"]
    if decides == "resource_changing":
        decides = scheduler.get("base", "fifo")
    return decides not in (*STOPPING, *CHANGING)
