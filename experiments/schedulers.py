"""The trial scheduler of a spec. Metric and mode come from the tune config."""

from __future__ import annotations

import math
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, MedianStoppingRule, TrialScheduler

from experiments.asha import FiniteAsha
from experiments.hyperband import HyperBand
from experiments.mutation import Check, Mutation
from experiments.population import PopulationTraining
from experiments.population_bandit import PopulationBandit
from experiments.resource_sharing import share_freed_cpus
from experiments.schedule_replay import ScheduleReplay
from experiments.scheduler_checks import base_scheduler, mutated_parameters
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
from search_spaces.documents import Document
from search_spaces.space import SearchSpace


def build_scheduler(
    spec: SweepSpec, space: SearchSpace, trainable: Any, num_trials: int
) -> TrialScheduler:
    """The scheduler that a checked spec asks for.

    Args:
        spec: The sweep.
        space: Its search space.
        trainable: The trainable class; its `config_class` says which mutations are valid.
        num_trials: Of the sweep.
    """
    options = spec.scheduler
    if isinstance(options, HyperBandScheduler):
        return _hyperband(options, num_trials)
    if isinstance(options, PbtScheduler | Pb2Scheduler):
        return _population(options, spec, space, _check_of(trainable))
    if isinstance(options, PbtReplayScheduler):
        assert options.time_attr, "replay_checks.complete_replay sets it"
        return ScheduleReplay(options.schedule, options.time_attr)
    if isinstance(options, ResourceChangingScheduler):
        return share_freed_cpus(_stopping(base_scheduler(Document({}, spec.name), spec)))
    return _stopping(options)


def together(spec: SweepSpec, num_trials: int, max_concurrent: int) -> int | None:
    """How many trials are alive at a time, running or paused, where a scheduler pauses them."""
    options = spec.scheduler
    if isinstance(options, PbtScheduler | Pb2Scheduler):
        return num_trials
    if isinstance(options, HyperBandScheduler):
        return _hyperband(options, num_trials).largest_bracket
    return max_concurrent if isinstance(options, PbtReplayScheduler) else None


def _stopping(options: Any) -> TrialScheduler:
    """The schedulers that never pause a trial."""
    if isinstance(options, AshaScheduler):
        assert options.max_t and options.grace_period, "scheduler_checks sets them"
        return FiniteAsha(
            time_attr=options.time_attr,
            max_t=options.max_t,
            grace_period=options.grace_period,
            reduction_factor=options.reduction_factor,
            brackets=options.brackets,
        )
    if isinstance(options, MedianStoppingScheduler):
        assert options.grace_period, "scheduler_checks sets it"
        return MedianStopping(
            time_attr=options.time_attr,
            grace_period=options.grace_period,
            min_samples_required=options.min_samples_required,
            min_time_slice=math.inf,  # type: ignore[arg-type]  # it never yields to a waiting trial
        )
    return FIFOScheduler()


class MedianStopping(MedianStoppingRule):
    """Ray's rule, which would keep every result whole, and stop all trials after a NaN."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Take note of the budget and the objective, if it is a number."""
        seen = self._seen(result)
        if not seen:
            return TrialScheduler.CONTINUE
        decision: str = super().on_trial_result(tune_controller, trial, seen)
        return decision

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Take note of the last result, which Tune does not show at a stop criterion."""
        seen = self._seen(result)
        if seen:
            super().on_trial_complete(tune_controller, trial, seen)

    def _seen(self, result: dict[str, Any]) -> dict[str, float]:
        seen = {key: result.get(key) for key in (self._time_attr, str(self._metric))}
        finite = all(isinstance(v, (int, float)) and math.isfinite(v) for v in seen.values())
        return seen if finite else {}  # type: ignore[return-value]  # all are numbers


def _hyperband(options: HyperBandScheduler, num_trials: int) -> HyperBand:
    assert options.max_t and options.grace_period, "scheduler_checks sets them"
    return HyperBand(
        num_trials,
        time_attr=options.time_attr,
        max_t=options.max_t,
        grace_period=options.grace_period,
        reduction_factor=options.reduction_factor,
    )


def population_options(options: PbtScheduler | Pb2Scheduler, spec: SweepSpec) -> dict[str, Any]:
    """The arguments that PBT and PB2 share."""
    return {
        "time_attr": options.time_attr,
        "interval": options.perturbation_interval,
        "quantile": options.quantile_fraction,
        "synch": options.synch,
        "seed": spec.seed,
    }


def _population(
    options: PbtScheduler | Pb2Scheduler, spec: SweepSpec, space: SearchSpace, check: Check | None
) -> PopulationTraining:
    assert options.perturbation_interval, "scheduler_checks sets it"
    parameters = mutated_parameters(spec, space)
    shared = population_options(options, spec)
    if isinstance(options, Pb2Scheduler):
        return PopulationBandit(space, parameters, check, **shared)
    mutation = Mutation(
        parameters, options.perturbation_factors, options.resample_probability, check
    )
    return PopulationTraining(space, mutation, burn_in=options.burn_in_period, **shared)


class _Check:
    """Whether a whole config is valid for a config class; pickled with Tune's state."""

    def __init__(self, config_class: Any) -> None:
        self._config_class = config_class

    def __call__(self, config: dict[str, Any]) -> None:
        self._config_class.from_dict(config).validate()


def _check_of(trainable: Any) -> Check | None:
    config_class = getattr(trainable, "config_class", None)
    return None if config_class is None else _Check(config_class)
