"""The scheduler of a spec as the Python that constructs it."""

from __future__ import annotations

import math
from typing import Any

from ray.tune.schedulers import FIFOScheduler

from experiments.asha import FiniteAsha
from experiments.hyperband import HyperBand
from experiments.mutation import Mutation
from experiments.population import PopulationTraining
from experiments.population_bandit import PopulationBandit
from experiments.python_code import Call, Name, call, render
from experiments.resource_sharing import share_freed_cpus
from experiments.schedule_replay import ScheduleReplay
from experiments.scheduler_checks import base_scheduler
from experiments.scheduler_schema import (
    AshaScheduler,
    HyperBandScheduler,
    MedianStoppingScheduler,
    Pb2Scheduler,
    PbtReplayScheduler,
    PbtScheduler,
    ResourceChangingScheduler,
)
from experiments.schedulers import MedianStopping, population_options
from experiments.schema import SweepSpec
from search_spaces.documents import Document

_SPACE = Name("space")
CHECK = "check"


def scheduler_call(spec: SweepSpec, trainable: Any, num_trials: int) -> Call:
    """The call that constructs the scheduler; `check` in it is `check_source`'s function."""
    options = spec.scheduler
    if isinstance(options, HyperBandScheduler):
        return call(HyperBand, num_trials, **options.model_dump(exclude={"algorithm"}))
    if isinstance(options, PbtScheduler | Pb2Scheduler):
        return _population(options, spec, trainable)
    if isinstance(options, PbtReplayScheduler):
        schedule = [list(entry) for entry in options.schedule]
        return call(ScheduleReplay, schedule, options.time_attr)
    if isinstance(options, ResourceChangingScheduler):
        return call(share_freed_cpus, _stopping(base_scheduler(Document({}, spec.name), spec)))
    return _stopping(options)


def check_source(spec: SweepSpec, trainable: Any) -> str:
    """A function that refuses invalid mutations; nothing where nothing is mutated."""
    if not isinstance(spec.scheduler, PbtScheduler | Pb2Scheduler) or not _has_config(trainable):
        return ""
    return (
        f"def {CHECK}(config: dict) -> None:\n"
        '    """Raises ValueError for a mutated configuration that is not valid."""\n'
        f"    {trainable.__qualname__}.config_class.from_dict(config).validate()\n"
    )


def _stopping(options: Any) -> Call:
    if isinstance(options, AshaScheduler):
        return call(FiniteAsha, **options.model_dump(exclude={"algorithm"}))
    if isinstance(options, MedianStoppingScheduler):
        given = options.model_dump(exclude={"algorithm"})
        return call(MedianStopping, **given, min_time_slice=math.inf)
    return call(FIFOScheduler)


def _population(options: PbtScheduler | Pb2Scheduler, spec: SweepSpec, trainable: Any) -> Call:
    check = Name(CHECK) if _has_config(trainable) else None
    parameters = Name("space.parameters")
    if options.mutations is not None:
        parameters = Name(f"[p for p in space.parameters if p.key in {render(options.mutations)}]")
    shared = population_options(options, spec)
    if isinstance(options, Pb2Scheduler):
        return call(PopulationBandit, _SPACE, parameters, check=check, **shared)
    mutation = call(
        Mutation,
        parameters,
        factors=options.perturbation_factors,
        resample_probability=options.resample_probability,
        check=check,
    )
    return call(PopulationTraining, _SPACE, mutation, burn_in=options.burn_in_period, **shared)


def _has_config(trainable: Any) -> bool:
    return getattr(trainable, "config_class", None) is not None
