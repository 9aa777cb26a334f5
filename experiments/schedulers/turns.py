"""Taking turns: a population of more trials than run at a time trains side by side all the same.

Tune starts a trial when a process is free, and would let those that came first run to their end.
Where others wait, a trial therefore stops at the end of its interval, is saved, and leaves its
process to the one that is furthest behind. Where all have a process nobody stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from trainables.runtime.actors.feasibility import placement_problem

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

Budget = Callable[[Trial], float]
"""What a trial has used of its budget, at the end of its last interval."""


def next_in_turn(
    controller: TuneController, trials: Iterable[Trial], budget: Budget
) -> Trial | None:
    """The one furthest behind of the trials that wait for a process; None if none does.

    That Tune has asked for resources for a trial does not mean that it will get any: it asks for
    all of a population at once.
    """
    waiting = [trial for trial in trials if needs_process(controller, trial)]
    return min(waiting, key=budget, default=None)


def must_yield(controller: TuneController, trial: Trial, budget: Budget) -> bool:
    """Whether a trial at the end of its interval leaves its process to one that is behind it.

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
    if len(behind) <= _to_be_free(controller):
        return False
    return not any(_has_room(controller, other) for other in behind)


def needs_process(controller: TuneController, trial: Trial) -> bool:
    """Whether a trial waits and no process is being prepared for it."""
    if trial.status not in (Trial.PENDING, Trial.PAUSED) or trial in controller._resetting_trials:
        return False
    actor = controller._trial_to_actor.get(trial)
    return actor is None or not controller._actor_manager.is_actor_started(actor)


def _has_room(controller: TuneController, trial: Trial) -> bool:
    """Whether a trial's resources are reserved for it, or are free on the nodes now."""
    request: Any = trial.placement_group_factory
    if controller._actor_manager._resource_manager.has_resources_ready(request):
        return True
    bundles = [dict(bundle) for bundle in request.bundles]
    return placement_problem(bundles, request.strategy, _free_on_nodes()) is None


def _free_on_nodes() -> list[dict[str, float]]:
    from ray._private.state import available_resources_per_node

    return [dict(node) for node in available_resources_per_node().values()]


def _to_be_free(controller: TuneController) -> int:
    """Processes that are idle, end, or are left by trials that are being saved to pause."""
    manager = controller._actor_manager
    ending = sum(map(manager.is_actor_started, controller._stopping_actors))
    pausing = list(controller._cached_trial_decisions.values()).count(TrialScheduler.PAUSE)
    return controller._actor_cache.num_cached_objects + ending + pausing
