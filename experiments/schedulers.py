"""Trial schedulers of a spec: FIFO and asynchronous successive halving."""

from __future__ import annotations

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from experiments.scheduler_schema import AshaScheduler
from experiments.schema import SweepSpec


def build_scheduler(spec: SweepSpec) -> TrialScheduler:
    """The scheduler that a spec asks for. Metric and mode come from the tune config."""
    options = spec.scheduler
    if not isinstance(options, AshaScheduler):
        return FIFOScheduler()
    assert options.max_t and options.grace_period, "spec_checks.complete_scheduler sets them"
    return AsyncHyperBandScheduler(
        time_attr=options.time_attr,
        max_t=options.max_t,
        grace_period=options.grace_period,
        reduction_factor=options.reduction_factor,
        brackets=options.brackets,
    )
