"""The `scheduler` section of a spec: one class for each algorithm, with the options that it has.

All budgets are in units of `time_attr`: environment steps unless the spec says otherwise, so that
configurations with different batch sizes are compared fairly.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from analysis.names import ENV_STEPS
from experiments.spec.section import (
    NUMBER,
    FilePath,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
    sections_of,
)

ReductionFactor = Annotated[float, Field(gt=1), NUMBER]


class FifoScheduler(Section):
    """Every trial runs until a stop criterion holds."""

    algorithm: Literal["fifo"] = "fifo"


class _Timed(Section):
    time_attr: str = ENV_STEPS


class AshaScheduler(_Timed):
    """Asynchronous successive halving (Li et al., 2020)."""

    algorithm: Literal["asha"] = "asha"
    max_t: PositiveInt | None = None
    """Budget of a trial that is never stopped early; by default `stop`'s value of `time_attr`."""
    grace_period: PositiveInt | None = None
    """Budget that every trial gets; by default `max_t / reduction_factor ** 2`."""
    reduction_factor: ReductionFactor = 4
    """One in so many trials goes on at each rung."""
    brackets: Annotated[int, Field(gt=0, le=100), NUMBER] = 1


class HyperBandScheduler(_Timed):
    """Synchronous HyperBand (Li et al., 2018): trials pause at each rung until all are there."""

    algorithm: Literal["hyperband"] = "hyperband"
    max_t: PositiveInt | None = None
    """Budget of a trial that is never stopped early; by default `stop`'s value of `time_attr`."""
    grace_period: PositiveInt | None = None
    """Budget of the first rung of the bracket that halves most; by default
    `max_t / reduction_factor ** 2`."""
    reduction_factor: ReductionFactor = 3
    """One in so many trials goes on at each rung."""


class MedianStoppingScheduler(_Timed):
    """Stop a trial whose best is below the median of the others' running means (Golovin, 2017)."""

    algorithm: Literal["median_stopping"] = "median_stopping"
    grace_period: PositiveInt | None = None
    """Budget that every trial gets; by default a tenth of `stop`'s value of `time_attr`."""
    min_samples_required: PositiveInt = 3
    """Least number of trials for a median."""


class _Population(_Timed):
    perturbation_interval: PositiveInt | None = None
    """Budget between two exploits; by default a twentieth of `stop`'s value of `time_attr`."""
    quantile_fraction: Annotated[float, Field(gt=0, le=0.5), NUMBER] = 0.25
    """Share of the population that is replaced, and the share that replaces it."""
    synch: bool = False
    """Whether all trials wait for each other at each interval."""
    mutations: list[str] | None = None
    """The settings that are mutated; by default all of the search space."""


class PbtScheduler(_Population):
    """Population-based training (Jaderberg et al., 2017); `num_samples` is the population.

    Settings start from, and are mutated within, the domains of the search space.
    """

    algorithm: Literal["pbt"] = "pbt"
    burn_in_period: Annotated[int, Field(ge=0), NUMBER] = 0
    """Budget before the first exploit."""
    resample_probability: Probability = 0.25
    """Probability that a mutated setting is drawn again instead of perturbed."""
    perturbation_factors: tuple[PositiveFloat, PositiveFloat] = (1.2, 0.8)
    """A setting moves up or down by one of them: a logarithmic one is multiplied by it, a linear
    one moves by `factor - 1` of its range, a choice to its next or previous value."""

    @field_validator("perturbation_factors")
    @classmethod
    def _up_and_down(cls, factors: tuple[float, float]) -> tuple[float, float]:
        if not min(factors) < 1 < max(factors):
            raise ValueError("one factor must be above 1 and one below")
        return factors


class Pb2Scheduler(_Population):
    """Population-based bandits (Parker-Holder et al., 2020): a Gaussian process chooses."""

    algorithm: Literal["pb2"] = "pb2"


class PbtReplayScheduler(Section):
    """Repeat the schedule of settings of a PBT sweep's winner."""

    algorithm: Literal["pbt_replay"] = "pbt_replay"
    sweep: FilePath | None = None
    """Folder of the PBT sweep, `runs/<name>`; read once, when the spec is."""
    trial: str | None = None
    """Trial whose schedule is repeated; by default the one with the best last result."""
    time_attr: str | None = None
    """Unit of the schedule's budgets; by default that of the sweep."""
    schedule: list[tuple[Annotated[float, Field(ge=0), NUMBER], dict[str, Any]]] = []
    """A schedule instead of a sweep, budgets with settings: `[[0, {lr: 1e-3}], …]`."""


class ResourceChangingScheduler(Section):
    """Give the CPUs of ended trials to those that still run, as threads of their learners."""

    algorithm: Literal["resource_changing"] = "resource_changing"
    base: Literal["fifo", "asha", "median_stopping"] = "fifo"
    """The scheduler, with its default options."""


Scheduler = Annotated[
    FifoScheduler
    | AshaScheduler
    | HyperBandScheduler
    | MedianStoppingScheduler
    | PbtScheduler
    | Pb2Scheduler
    | PbtReplayScheduler
    | ResourceChangingScheduler,
    Field(discriminator="algorithm"),
]

SCHEDULERS = sections_of(Scheduler)
