"""Taking turns: a population of more trials than run at a time trains side by side all the same.

Tune starts a trial when a process is free, and would let those that came first run to their end.
Where others wait, a trial therefore stops at the end of its interval, is saved, and leaves its
process to the one that is furthest behind. Where all have a process nobody stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial

from experiments.internals.ray import free_on_nodes
from experiments.internals.tune import (
    has_place,
    has_process,
    has_reserved,
    is_resetting,
    num_to_be_free,
)
from trainables.runtime.actors.feasibility import placement_problem

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

Budget = Callable[[Trial], float]
"""What a trial has used of its budget, at the end of its last interval."""


def next_in_turn(
    controller: TuneController, trials: Iterable[Trial], budget: Budget
) -> Trial | None:
    """Return the one furthest behind of the trials that wait for a process; None if none does.

    That Tune has asked for resources for a trial does not mean that it will get any: it asks for
    all of a population at once.
    """
    waiting = [trial for trial in trials if needs_process(controller, trial)]
    return min(waiting, key=budget, default=None)


def must_yield(controller: TuneController, trial: Trial, budget: Budget) -> bool:
    """Tell whether a trial at the end of its interval leaves its process to one that is behind it.

    Not to one that has got as far: it would be its turn again at once, and a change of turns costs
    a save and a restore. So nobody is more than an interval or so ahead of anybody else. Nor to one
    whose process is only slow to come: for that there is room.
    """
    mine = budget(trial)
    behind = [
        other
        for other in controller.get_trials()
        if other is not trial and needs_process(controller, other) and budget(other) < mine
    ]
    if len(behind) <= num_to_be_free(controller):
        return False
    return not any(_has_room(controller, other) for other in behind)


def needs_process(controller: TuneController, trial: Trial) -> bool:
    """Tell whether a trial waits and no process is being prepared for it."""
    if trial.status not in (Trial.PENDING, Trial.PAUSED) or is_resetting(controller, trial):
        return False
    return not has_process(controller, trial)


def _has_room(controller: TuneController, trial: Trial) -> bool:
    """Tell whether a trial's resources are reserved for it, or are free on the nodes now."""
    if has_reserved(controller, trial):
        return True
    if has_place(controller) is not None:
        return False
    request: Any = trial.placement_group_factory
    bundles = [dict(bundle) for bundle in request.bundles]
    return placement_problem(bundles, request.strategy, free_on_nodes()) is None
