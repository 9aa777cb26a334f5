"""What the kinds share that halve the trials at each rung: the budgets of the rungs."""

from __future__ import annotations

from typing import TypeVar

from experiments.schedulers.kind import PLACE, Draft, SchedulerKind, limit_of
from experiments.spec.scheduler_schema import AshaScheduler, HyperBandScheduler

Options = TypeVar("Options", AshaScheduler, HyperBandScheduler)


class HalvingKind(SchedulerKind[Options]):
    """Successive halving: of the trials at a rung the best go on."""

    def complete(self, draft: Draft) -> None:
        spec, options = draft.spec, self.options
        limit = spec.stop.get(options.time_attr)
        if options.max_t is None:
            options.max_t = int(limit_of(draft, options.time_attr, "max_t"))
        if options.grace_period is None:
            options.grace_period = max(1, int(options.max_t / options.reduction_factor**2))
        if options.grace_period > options.max_t:
            raise draft.document.error(
                (*PLACE, "grace_period"),
                f"scheduler: grace_period = {options.grace_period} is above max_t = "
                f"{options.max_t} ({options.time_attr})",
            )
        if limit is None:
            # A trial that reaches max_t is finished, not stopped early: say so to all who ask.
            spec.stop = {**spec.stop, options.time_attr: options.max_t}
