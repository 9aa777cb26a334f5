"""What a spec's scheduler needs: budgets from `stop`, and a search and trainable that it suits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from analysis.schedulers import POPULATION
from experiments.pairs import ONE_OBJECTIVE, why_not
from experiments.replay_checks import complete_replay
from experiments.scheduler_schema import (
    AshaScheduler,
    HyperBandScheduler,
    MedianStoppingScheduler,
    Pb2Scheduler,
    PbtReplayScheduler,
    PbtScheduler,
    ResourceChangingScheduler,
)
from experiments.schema import SweepSpec
from search_spaces.documents import Document, nearest
from search_spaces.space import Parameter, SearchSpace
from trainables.core.compatibility import ALIASES

_PLACE = ("scheduler",)
PAUSING = ("hyperband", "pbt", "pb2", "pbt_replay", "resource_changing")
_BUFFER = "store_buffer_in_checkpoints"
# All of a population share these: a trial goes on in a process that was built for its donor's.
_SHARED_SECTIONS = ("environment", "env_runners", "learners", "resources")


def check_pair(document: Document, spec: SweepSpec) -> None:
    """Whether the search and the objectives suit the scheduler.

    Raises:
        SpecError: Why they do not, and what would.
    """
    name = spec.scheduler.algorithm
    reason = why_not(spec.search.algorithm, name)
    if reason is None and isinstance(spec.scheduler, ResourceChangingScheduler):
        reason = why_not(spec.search.algorithm, spec.scheduler.base)
    if reason is not None:
        raise document.error(_PLACE, f"scheduler: {reason}")
    if len(spec.objectives) > 1 and name in ONE_OBJECTIVE:
        raise document.error(
            _PLACE,
            f"scheduler: {name} compares trials by one objective, and there are "
            f"{len(spec.objectives)}; use scheduler: fifo, or a single objective",
        )


def check_scheduler(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """Check the scheduler against the rest of the spec, and complete its budgets.

    Raises:
        SpecError: What does not go together, why, and what would.
    """
    scheduler = spec.scheduler
    name = scheduler.algorithm
    if name in PAUSING:
        _require_stored_buffer(document, spec, space, trainable)
    if isinstance(scheduler, AshaScheduler | HyperBandScheduler):
        _complete_halving(document, spec, scheduler)
    elif isinstance(scheduler, MedianStoppingScheduler):
        _complete_median(document, spec, scheduler)
    elif isinstance(scheduler, PbtScheduler | Pb2Scheduler):
        _check_population(document, spec, space, trainable)
    elif isinstance(scheduler, PbtReplayScheduler):
        complete_replay(document, spec, space, trainable)
    elif isinstance(scheduler, ResourceChangingScheduler):
        _check_one_bundle(document, spec, space, trainable)
        base_scheduler(document, spec)
    if name in (*POPULATION, "hyperband") and spec.max_concurrent is not None:
        raise document.error(
            ("max_concurrent",),
            f"max_concurrent: {name} compares trials that wait for each other, and all of them "
            "must have begun; leave it out: resources.num_cpus says how many run at a time",
        )


def mutated_parameters(spec: SweepSpec, space: SearchSpace) -> list[Parameter]:
    """The searched settings that a population mutates."""
    assert isinstance(spec.scheduler, PbtScheduler | Pb2Scheduler)
    names = spec.scheduler.mutations
    return [p for p in space.parameters if names is None or p.key in names]


def base_scheduler(document: Document, spec: SweepSpec) -> Any:
    """The completed section of the scheduler that `resource_changing` asks for its decisions."""
    assert isinstance(spec.scheduler, ResourceChangingScheduler)
    if spec.scheduler.base == "asha":
        asha = AshaScheduler()
        _complete_halving(document, spec, asha)
        return asha
    if spec.scheduler.base == "median_stopping":
        median = MedianStoppingScheduler()
        _complete_median(document, spec, median)
        return median
    return None


# ---------------------------------------------------------------------- budgets


def _limit(document: Document, spec: SweepSpec, time_attr: str, option: str) -> float:
    """The stop criterion that budgets are derived from."""
    limit = spec.stop.get(time_attr)
    if limit is None or limit < 1:
        name = spec.scheduler.algorithm
        raise document.error(_PLACE, f"scheduler: {name} needs {option}, or stop.{time_attr}")
    return limit


def _complete_halving(
    document: Document, spec: SweepSpec, scheduler: AshaScheduler | HyperBandScheduler
) -> None:
    limit = spec.stop.get(scheduler.time_attr)
    if scheduler.max_t is None:
        scheduler.max_t = int(_limit(document, spec, scheduler.time_attr, "max_t"))
    if scheduler.grace_period is None:
        scheduler.grace_period = max(1, int(scheduler.max_t / scheduler.reduction_factor**2))
    if scheduler.grace_period > scheduler.max_t:
        raise document.error(
            (*_PLACE, "grace_period"),
            f"scheduler: grace_period = {scheduler.grace_period} is above max_t = "
            f"{scheduler.max_t} ({scheduler.time_attr})",
        )
    if limit is None:
        # A trial that reaches max_t is finished, not stopped early: say so to everyone who asks.
        spec.stop = {**spec.stop, scheduler.time_attr: scheduler.max_t}


def _complete_median(
    document: Document, spec: SweepSpec, scheduler: MedianStoppingScheduler
) -> None:
    if scheduler.grace_period is None:
        limit = _limit(document, spec, scheduler.time_attr, "grace_period")
        scheduler.grace_period = max(1, int(limit / 10))


# ---------------------------------------------------------------------- populations


def _check_population(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    scheduler = spec.scheduler
    assert isinstance(scheduler, PbtScheduler | Pb2Scheduler)
    name = scheduler.algorithm
    size = spec.num_samples * sum(1 for _ in space.grid_points())
    if size < 2:
        raise document.error(
            ("num_samples",),
            f"num_samples: {name} needs a population of 2 trials at least, and does something from "
            "4 on; num_samples is its size",
        )
    _check_mutations(document, spec, space, trainable)
    if scheduler.perturbation_interval is None:
        limit = _limit(document, spec, scheduler.time_attr, "perturbation_interval")
        scheduler.perturbation_interval = max(1, math.ceil(limit / 20))
    first = max(scheduler.perturbation_interval, getattr(scheduler, "burn_in_period", 0))
    end = spec.stop.get(scheduler.time_attr, math.inf)
    if first >= end:
        option = "perturbation_interval"
        if first > scheduler.perturbation_interval:
            option = "burn_in_period"
        raise document.error(
            (*_PLACE, option),
            f"scheduler: {option} = {first} is not below stop.{scheduler.time_attr} = {end:g}: no "
            "trial would ever be replaced",
        )


def _check_mutations(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """Every mutated setting can be changed in mid-run; none is shared by the population."""
    scheduler = spec.scheduler
    assert isinstance(scheduler, PbtScheduler | Pb2Scheduler)
    name = scheduler.algorithm
    if scheduler.mutations is not None:
        scheduler.mutations = [_canonical(name) for name in scheduler.mutations]
    for key in scheduler.mutations or []:
        if key not in space.keys:
            known = ", ".join(space.keys) or "nothing"
            raise document.error(
                (*_PLACE, "mutations"),
                f"scheduler: mutations: {key!r} is not searched; the search space has {known}"
                f"{nearest(key, space.keys)}",
            )
    mutated = mutated_parameters(spec, space)
    if not mutated:
        raise document.error(
            _PLACE, f"scheduler: {name} needs a search_space: what it mutates is searched"
        )
    config_class: Any = getattr(trainable, "config_class", None)
    for parameter in space.parameters if config_class is not None else ():
        place = ("search_space", parameter.key)
        section = config_class.settings()[parameter.path[0]].section
        reason = config_class.why_fixed(parameter.path)
        if reason is None or (parameter not in mutated and section not in _SHARED_SECTIONS):
            continue
        if section in _SHARED_SECTIONS:
            ways = "fix it under config"
        else:
            others = [p.key for p in mutated if config_class.why_fixed(p.path) is None]
            ways = f"fix it under config, or mutate only others: scheduler.mutations: {others}"
        raise document.error(
            place, f"{parameter.key}: {name} cannot change it in mid-run: {reason}; {ways}"
        )
    for parameter in space.parameters:
        for condition in parameter.conditions:
            if any(condition.path == other.path for other in mutated):
                raise document.error(
                    ("search_space", condition.key),
                    f"{condition.key}: {name} cannot change it in mid-run: {parameter.key} is only "
                    "searched for some of its values; leave it out of scheduler.mutations",
                )
    if isinstance(scheduler, Pb2Scheduler):
        _require_continuous(document, mutated)


def _canonical(name: str) -> str:
    """A setting by the name that the search space has it by."""
    outer, *inner = name.split(".")
    return ".".join([ALIASES.get(outer, outer), *inner])


def _require_continuous(document: Document, mutated: Sequence[Parameter]) -> None:
    for parameter in mutated:
        if parameter.domain.kind not in ("uniform", "loguniform") or parameter.conditions:
            kind = "conditional ones" if parameter.conditions else parameter.domain.kind
            raise document.error(
                ("search_space", parameter.key),
                f"{parameter.key}: pb2 models continuous settings, not {kind}; "
                "use uniform or loguniform, leave it out of scheduler.mutations, or use scheduler: "
                "pbt",
            )


# ---------------------------------------------------------------------- the trainable


def _require_stored_buffer(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """A paused trial goes on from a checkpoint: with an empty replay buffer it learns nothing."""
    config_class = getattr(trainable, "config_class", None)
    settings = config_class.settings() if config_class is not None else {}
    if _BUFFER not in settings:
        return
    stored = spec.config.get(_BUFFER, settings[_BUFFER].default)
    if not stored or _BUFFER in space.keys:
        raise document.error(
            _PLACE,
            f"scheduler: {spec.scheduler.algorithm} pauses trials and goes on from their "
            f"checkpoints, and those of {spec.trainable} hold no replay buffer; set "
            f"config.{_BUFFER}: true, or use scheduler: asha, median_stopping or fifo",
        )


def _check_one_bundle(
    document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    configs = [spec.config, *({**spec.config, **probe} for _, probe in space.probes())]
    requests = [trainable.default_resource_request(dict(config)) for config in configs]
    if any(request is not None and len(request.bundles) > 1 for request in requests):
        raise document.error(
            _PLACE,
            "scheduler: resource_changing gives CPUs to the process that learns, and the trials "
            "have others beside it; set config.num_env_runners: 0, or use another scheduler",
        )
    if any(request != requests[0] for request in requests):
        raise document.error(
            _PLACE,
            "scheduler: resource_changing needs trials that all begin with the same resources; "
            "fix under config what they follow from, or use another scheduler",
        )
