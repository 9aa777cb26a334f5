"""The schedule that `scheduler: pbt_replay` repeats, from the lineage of an earlier sweep."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from analysis.home import expanded
from experiments.metrics import canonical_metric
from experiments.mutation import holds
from experiments.scheduler_schema import PbtReplayScheduler
from experiments.schema import ENV_STEPS, SweepSpec
from search_spaces.documents import Document, SpecError, load_document
from search_spaces.space import SearchSpace, assign

_PLACE = ("scheduler",)


def complete_replay(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """Fill in the schedule, and check that the settings in it are this trainable's, and free.

    Raises:
        SpecError: There is no schedule, or it does not fit the spec.
    """
    scheduler = spec.scheduler
    assert isinstance(scheduler, PbtReplayScheduler)
    if not scheduler.schedule:
        _read_sweep(document, scheduler)
    scheduler.time_attr = scheduler.time_attr or ENV_STEPS
    place = (*_PLACE, "schedule")
    budgets = [budget for budget, _ in scheduler.schedule]
    if budgets[0] != 0 or any(a >= b for a, b in pairwise(budgets)):
        raise document.error(
            place, f"scheduler: schedule: its budgets {budgets} must start at 0 and rise"
        )
    config_class = getattr(trainable, "config_class", None)
    for _, settings in scheduler.schedule:
        for name, value in settings.items():
            path = tuple(name.split("."))
            where = "config" if holds(spec.config, path) else "search_space"
            if where == "config" or name in space.keys:
                raise document.error(
                    (where, name), f"{where}: {name} is set by the replayed schedule; remove it"
                )
            if config_class is None:
                continue
            given: dict[str, Any] = {}
            assign(given, path, value)
            try:
                config_class.check(given)
            except ValueError as error:
                raise document.error(place, f"scheduler: the schedule: {error}") from None


def _read_sweep(document: Document, scheduler: PbtReplayScheduler) -> None:
    from analysis.lineage import read_lineage, schedule, winner
    from analysis.rows import ResultsError

    if scheduler.sweep is None:
        raise document.error(
            _PLACE, "scheduler: pbt_replay needs the folder of a PBT sweep, sweep: runs/<name>"
        )
    folder = expanded(scheduler.sweep)
    place = (*_PLACE, "sweep")
    try:
        exploits = read_lineage(folder)
        if scheduler.trial is None:
            objective = load_document(folder / "spec.yaml").data["objective"]
            scheduler.trial = winner(folder, objective["metric"], objective["mode"])
        scheduler.schedule = schedule(exploits, scheduler.trial)
    except (ResultsError, SpecError, KeyError) as error:
        raise document.error(place, f"scheduler: sweep: {error}") from None
    scheduler.time_attr = canonical_metric(exploits[0].time_attr)
