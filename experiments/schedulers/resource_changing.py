"""The CPUs of ended trials for those that still run, as threads of their learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import ResourceChangingScheduler as TunesResourceChanging
from ray.tune.schedulers import TrialScheduler

from experiments.internals.tune import num_cpus
from experiments.schedulers.kind import PLACE, Draft, Parts, SchedulerKind, scheduler_kind
from experiments.spec.scheduler_schema import SCHEDULERS, ResourceChangingScheduler
from search_spaces.documents import Document

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class ResourceChanging(SchedulerKind[ResourceChangingScheduler]):
    """Gives the CPUs of ended trials to those that still run; another scheduler ends trials."""

    pauses = True
    shares_cpus = True
    fixed_budget = "its trials have grown as others ended, and do not fit beside each other"

    @property
    def decided_by(self) -> str:
        return self.options.base

    def check(self, draft: Draft) -> None:
        fixed, probes = draft.spec.config, draft.space.probes()
        configs = [fixed, *({**fixed, **probe} for _, probe in probes)]
        requests = [draft.trainable.default_resource_request(dict(config)) for config in configs]
        if any(request is not None and len(request.bundles) > 1 for request in requests):
            raise draft.document.error(
                PLACE,
                "scheduler: resource_changing gives CPUs to the process that learns, and the "
                "trials have others beside it; set config.num_env_runners: 0, or use another "
                "scheduler",
            )
        if any(request != requests[0] for request in requests):
            raise draft.document.error(
                PLACE,
                "scheduler: resource_changing needs trials that all begin with the same "
                "resources; fix under config what they follow from, or use another scheduler",
            )

    def complete(self, draft: Draft) -> None:
        """See that the base scheduler's budgets follow from the spec: it has no options here."""
        self._base().complete(draft)

    def build(self, parts: Parts) -> TrialScheduler:
        base = self._base()
        document = Document({}, parts.spec.name)
        base.complete(Draft(document, parts.spec, parts.space, None))
        return share_freed_cpus(base.build(parts))

    def _base(self) -> SchedulerKind[Any]:
        return scheduler_kind(SCHEDULERS[self.options.base]())


def share_cpus(
    controller: TuneController,
    trial: Trial,
    result: dict[str, Any],
    scheduler: TunesResourceChanging,
) -> PlacementGroupFactory | None:
    """Return an equal share of all CPUs in the trial's one bundle, once no further trial will come.

    Earlier, a CPU that is free is about to be another trial's; and a change costs a pause and a new
    process. So a trial only ever grows.

    Returns:
        The new request; None to leave it.
    """
    waiting = any(t.status == Trial.PENDING for t in controller.get_trials())
    if waiting or not controller.search_alg.is_finished():
        return None
    running = [t for t in controller.get_live_trials() if not t.is_finished()]
    share = num_cpus(controller) // max(1, len(running))
    request: Any = trial.placement_group_factory
    (bundle,) = request.bundles
    if share <= bundle.get("CPU", 0):
        return None
    return PlacementGroupFactory([{**bundle, "CPU": share}])


def share_freed_cpus(base: TrialScheduler) -> TunesResourceChanging:
    """Return a scheduler that decides as `base` does, and hands out the CPUs of ended trials."""
    return TunesResourceChanging(base, share_cpus)
