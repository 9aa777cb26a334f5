"""The schedulers that there are, what each does to trials, and what that means for comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis.results.searches import LEARNING, SEARCH_SYNONYMS


class SchedulerFamily(NamedTuple):
    """What a scheduler does to trials.

    Attributes:
        words: What sentences call it.
        stops: Whether it stops trials early.
        changes: Whether a trial has several settings, one after another.
        population: Whether it takes these from better trials that run beside it.
    """

    words: str
    stops: bool = False
    changes: bool = False
    population: bool = False


SCHEDULER_FAMILIES = {
    "fifo": SchedulerFamily("no scheduler"),
    "asha": SchedulerFamily("ASHA", stops=True),
    "hyperband": SchedulerFamily("HyperBand", stops=True),
    "median_stopping": SchedulerFamily("median stopping", stops=True),
    "pbt": SchedulerFamily("PBT", changes=True, population=True),
    "pb2": SchedulerFamily("PB2", changes=True, population=True),
    "pbt_replay": SchedulerFamily("a replayed schedule of PBT", changes=True),
    "resource_changing": SchedulerFamily("resource changing"),
}

STOPPING = tuple(name for name, family in SCHEDULER_FAMILIES.items() if family.stops)
POPULATION = tuple(name for name, family in SCHEDULER_FAMILIES.items() if family.population)
CHANGING = tuple(name for name, family in SCHEDULER_FAMILIES.items() if family.changes)


def section(value: Any, default: str) -> dict[str, Any]:
    """Return a spec's `search` or `scheduler` as a mapping; it may be a name alone, or missing."""
    if isinstance(value, Mapping) and "algorithm" in value:
        return dict(value)
    return {"algorithm": value if isinstance(value, str) else default}


def compares_settings(spec: Mapping[str, Any]) -> bool:
    """Tell whether the ends of a sweep's trials tell what each setting did.

    Not after a search that learns, which tries good levels more often and beside better values of
    the others; not where trials were stopped early, for their ends are at different budgets; and
    not where settings change in mid-run.

    Args:
        spec: The sweep's, as `spec.yaml` has it.
    """
    search = section(spec.get("search"), "random")["algorithm"]
    if SEARCH_SYNONYMS.get(search, search) in LEARNING:
        return False
    scheduler = section(spec.get("scheduler"), "fifo")
    # More CPUs make a trial faster; whether it runs to its end is the base scheduler's to say.
    decides = scheduler["algorithm"]
    if decides == "resource_changing":
        decides = scheduler.get("base", "fifo")
    return decides not in (*STOPPING, *CHANGING)
