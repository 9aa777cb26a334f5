"""The CPUs of ended trials for those that still run, as threads of their learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import ResourceChangingScheduler, TrialScheduler

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


def share_cpus(
    controller: TuneController,
    trial: Trial,
    result: dict[str, Any],
    scheduler: ResourceChangingScheduler,
) -> PlacementGroupFactory | None:
    """An equal share of all CPUs in the trial's one bundle, once no further trial will come.

    Earlier, a CPU that is free is about to be another trial's; and a change costs a pause and a new
    process. So a trial only ever grows.

    Returns:
        The new request; None to leave it.
    """
    waiting = any(t.status == Trial.PENDING for t in controller.get_trials())
    if waiting or not controller.search_alg.is_finished():
        return None
    running = [t for t in controller.get_live_trials() if not t.is_finished()]
    share = int(controller._resource_updater.get_num_cpus()) // max(1, len(running))
    request: Any = trial.placement_group_factory
    (bundle,) = request.bundles
    if share <= bundle.get("CPU", 0):
        return None
    return PlacementGroupFactory([{**bundle, "CPU": share}])


def share_freed_cpus(base: TrialScheduler) -> ResourceChangingScheduler:
    """A scheduler that decides as `base` does, and hands out the CPUs of ended trials."""
    return ResourceChangingScheduler(base, share_cpus)
