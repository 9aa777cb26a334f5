"""The keys of a sweep spec: names, types, ranges, defaults. Reading it is `spec.py`'s work."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

ENV_STEPS = "num_env_steps_sampled_lifetime"

PositiveInt = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class _Section(BaseModel):
    """Unknown keys are errors, in assignments too."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, validate_default=True)


class GridSearch(_Section):
    """Try every combination of the listed values, once."""

    algorithm: Literal["grid"] = "grid"


class RandomSearch(_Section):
    """Draw `num_samples` configurations; settings with `grid` are crossed with each of them."""

    algorithm: Literal["random"] = "random"


class OptunaSearch(_Section):
    """Optuna's tree-structured Parzen estimator."""

    algorithm: Literal["optuna"] = "optuna"
    n_startup_trials: Annotated[int, Field(ge=0)] = 10
    """Random trials before the estimator takes over."""


class FifoScheduler(_Section):
    """Every trial runs until a stop criterion holds."""

    algorithm: Literal["fifo"] = "fifo"


class AshaScheduler(_Section):
    """Asynchronous successive halving (Li et al., 2020). Budgets are in units of `time_attr`."""

    algorithm: Literal["asha"] = "asha"
    time_attr: str = ENV_STEPS
    max_t: PositiveInt | None = None
    """Budget of a trial that is never stopped early; by default `stop`'s value of `time_attr`."""
    grace_period: PositiveInt | None = None
    """Budget that every trial gets; by default `max_t / reduction_factor ** 2`."""
    reduction_factor: Annotated[float, Field(gt=1)] = 4
    """One in so many trials goes on at each rung."""
    brackets: PositiveInt = 1


class Objective(_Section):
    """What is optimised."""

    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"


class Checkpointing(_Section):
    """Which checkpoints of a trial are kept: the best `num_to_keep` and the latest."""

    num_to_keep: PositiveInt = 2
    frequency: Annotated[int, Field(ge=0)] = 10
    """Training iterations between checkpoints; 0 saves only at the end."""
    at_end: bool = True


class Resources(_Section):
    """The Ray that runs the trials. What one trial needs follows from its config."""

    address: str | None = None
    """A running cluster to join (`ip:port`, or `auto`); by default a Ray on this machine."""
    num_cpus: PositiveInt | None = None
    """CPUs of the Ray on this machine; by default all of them."""
    num_gpus: Annotated[int, Field(ge=0)] | None = None
    reuse_actors: bool = True
    """Whether a trial takes over the process of a finished one: milliseconds, not seconds."""


class Mlflow(_Section):
    """Tracking. By default `mlflow.db` (SQLite) in the storage folder."""

    enabled: bool = True
    tracking_uri: str | None = None
    experiment_name: str = "tunescape"
    required: bool = False
    """Whether a tracking server that cannot be reached stops the sweep before it begins."""
    tags: dict[str, str] = {}


def _algorithm_of(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("algorithm", ""))
    return str(getattr(value, "algorithm", value))


Search = Annotated[
    Annotated[GridSearch, Tag("grid")]
    | Annotated[RandomSearch, Tag("random")]
    | Annotated[OptunaSearch, Tag("optuna")],
    Discriminator(_algorithm_of),
]
Scheduler = Annotated[
    Annotated[FifoScheduler, Tag("fifo")] | Annotated[AshaScheduler, Tag("asha")],
    Discriminator(_algorithm_of),
]

SEARCHES = ("grid", "random", "optuna")
SCHEDULERS = ("fifo", "asha")


class SweepSpec(_Section):
    """One sweep: what is trained, what is searched, and how.

    Build it with `experiments.spec.load_spec` (a file) or `experiments.spec.make_spec` (a dict):
    they check the config and the search space against the trainable, which this class does not.
    """

    name: str
    trainable: str = "PPO"
    config: dict[str, Any] = {}
    """Fixed settings, by canonical name."""
    search_space: dict[str, Any] = {}
    """Searched settings: domains by setting."""
    search: Search = RandomSearch()
    scheduler: Scheduler = FifoScheduler()
    objective: Objective = Objective()
    stop: dict[str, float | int] = {}
    """A trial ends when a metric reaches the value."""
    num_samples: PositiveInt = 1
    max_concurrent: PositiveInt | None = None
    """Trials at a time; by default as many as the CPUs allow."""
    time_budget_s: Annotated[float, Field(gt=0)] | None = None
    """Wall-clock budget of the whole sweep, seconds."""
    max_failures: Annotated[int, Field(ge=0)] = 1
    """How often a trial whose process died goes on from its latest checkpoint."""
    seed: Seed | None = None
    """Seed of the search and, unless `config.seed` is set, of every trial."""
    resources: Resources = Resources()
    checkpoint: Checkpointing = Checkpointing()
    storage: str = "runs"
    """Folder that holds the sweep's folder, `<storage>/<name>`."""
    mlflow: Mlflow = Mlflow()

    @field_validator("name")
    @classmethod
    def _folder_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
            raise ValueError("use letters, digits, '_', '-', '+' and '.'; it names a folder")
        return name

    @field_validator("stop")
    @classmethod
    def _finite_numbers(cls, stop: dict[str, float]) -> dict[str, float]:
        for metric, value in stop.items():
            if math.isnan(value):
                raise ValueError(f"{metric} = nan never holds")
        return stop
