"""The keys of a sweep spec: names, types, ranges, defaults. Reading it is `spec.py`'s work."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_serializer

from experiments.spec.ray_names import check_address, check_resources_given
from experiments.spec.scheduler_schema import FifoScheduler, Scheduler
from experiments.spec.search_schema import RandomSearch, Search
from experiments.spec.section import (
    MAX_NAME,
    MAX_SEEDS,
    NUMBER,
    Count,
    FilePath,
    PositiveInt,
    Probability,
    Section,
    Seed,
)


class Objective(Section):
    """The metric to optimise."""

    metric: str = "episode_return_mean"
    mode: Literal["max", "min"] = "max"


class Checkpointing(Section):
    """Which checkpoints of a trial are kept: the best `num_to_keep` and the latest."""

    num_to_keep: PositiveInt = 2
    frequency: Annotated[int, Field(ge=0), NUMBER] = 10
    """Training iterations between checkpoints; 0 saves only at the end."""
    at_end: bool = True


class Resources(Section):
    """The Ray that runs the trials. The resources of a trial follow from its config."""

    address: str | None = None
    """A running cluster to join (`ip:port`, or `auto`); by default a Ray on this machine."""
    num_cpus: Count | None = None
    """CPUs of the Ray on this machine; by default all of them."""
    num_gpus: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = None
    custom: dict[str, Annotated[float, Field(gt=0), NUMBER]] = {}
    """Custom resources of the Ray on this machine, e.g. `{simulator: 4}`."""
    per_trial: dict[str, Annotated[float, Field(gt=0), NUMBER]] = {}
    """Resources of a trial of your own trainable, e.g. `{CPU: 2, GPU: 0.5}`; by default those that
    it requests, or one CPU. The resources of our algorithms follow from their config."""
    reuse_actors: bool | None = None
    """Whether a trial reuses the process of a finished one: milliseconds, not seconds. By default
    if the trainable's class has its own `reset_config`."""

    @field_validator("address")
    @classmethod
    def _joinable(cls, address: str | None) -> str | None:
        return None if address is None else check_address(address)

    @field_validator("per_trial")
    @classmethod
    def _as_ray_calls_them(cls, per_trial: dict[str, float]) -> dict[str, float]:
        """Tune writes `cpu` and `gpu`, Ray `CPU` and `GPU`."""
        names = {name: name.upper() if name in ("cpu", "gpu") else name for name in per_trial}
        if len(set(names.values())) < len(names):
            raise ValueError("a resource is given twice, in upper and in lower case")
        return {names[name]: amount for name, amount in per_trial.items()}

    @field_validator("custom")
    @classmethod
    def _nobody_elses(cls, custom: dict[str, float]) -> dict[str, float]:
        check_resources_given(custom)
        return custom


class Mlflow(Section):
    """Tracking. By default `mlflow.db` (SQLite) in the storage folder."""

    enabled: bool = True
    tracking_uri: FilePath | None = None
    experiment_name: str = "tunescape"
    required: bool = False
    """Whether a tracking server that cannot be reached stops the sweep before it begins."""
    tags: dict[str, str] = {}
    log_model: bool = True
    """Whether the best policy is logged as an MLflow model, with its signature."""
    register_as: Annotated[str, Field(pattern=r"^[^/:]+$")] | None = None
    """Name under which that model is registered."""
    system_metrics: bool = False
    """Whether CPU, memory and GPU use of this machine are logged on the sweep's run."""
    max_pending_metrics: PositiveInt = 200_000
    """Most values that wait for a slow server; beyond it the oldest are dropped, with a note."""


class Seeds(Section):
    """Several seeds of every configuration as one trial."""

    values: Annotated[list[Seed], Field(min_length=1, max_length=MAX_SEEDS)]
    parallel: Count | Literal["auto"] = "auto"
    """Seeds that train at the same time, each with a trial's resources; `auto`: as many as the
    CPUs allow when there are fewer trials than the machine could run at a time."""


class Final(Section):
    """The best configurations run again on seeds that the search has not seen."""

    top: Annotated[int, Field(gt=0, le=1000), NUMBER] = 3
    """Number of configurations."""
    seeds: Annotated[int, Field(ge=2, le=MAX_SEEDS), NUMBER] = 10
    """Number of held-out seeds of each."""


class Expert(Section):
    """A policy that is trained before data are recorded, in the sweep's own process."""

    trainable: str = "PPO"
    """An algorithm that learns from an environment."""
    config: dict[str, Any]
    stop: Annotated[dict[str, float | int], Field(min_length=1)]
    """Training ends when a metric reaches the value."""


class Record(Section):
    """Data to record before the trials for `input_`, unless they exist already."""

    train: Expert | None = None
    """The policy that plays; by default actions are uniformly random."""
    env: str | None = None
    """The environment; by default that of `train`."""
    episodes: Annotated[int, Field(gt=0, le=10**9), NUMBER] = 100
    epsilon: Probability = 0.0
    """Probability of each action to be uniformly random instead."""
    random_share: Probability = 0.0
    """Share of episodes that are uniformly random as a whole."""
    explore: bool = False
    """Whether the policy samples actions, instead of taking the most likely ones."""
    seed: Seed = 0
    folder: FilePath | None = None
    """Folder of the data; by default in `<storage>/data`, named by a digest of this section: a
    changed section records again."""


class UserCallback(Section):
    """A callback of Tune with its arguments."""

    class_: Annotated[str, Field(min_length=1, alias="class")]
    """`module:Class` of a `ray.tune.Callback`, or the name of a tracker (`wandb`)."""
    args: dict[str, Any] = {}
    """Keyword arguments of the class; a key or password as `${env:NAME}`."""

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return {"class": self.class_, "args": self.args}


class SweepSpec(Section):
    """One sweep: the trainable, the search space, and the search.

    Build it with `experiments.sweep.load.load_spec` (a file) or `experiments.sweep.load.make_spec`
    (a dict): they check the config and the search space against the trainable, which this class
    does not.
    """

    name: str
    trainable: str = "PPO"
    config: dict[str, Any] = {}
    """Fixed settings, by canonical name."""
    search_space: dict[str, Any] = {}
    """Searched settings with their domains."""
    search: Search = RandomSearch()
    scheduler: Scheduler = FifoScheduler()
    objective: Objective = Objective()
    objectives: list[Objective] = []
    """Several objectives, instead of one; `objective` is then the first of them."""
    stop: dict[str, float | int] = {}
    """A trial ends when a metric reaches the value."""
    num_samples: Count = 1
    max_concurrent: Count | None = None
    """Trials at a time; by default as many as the CPUs allow."""
    time_budget_s: Annotated[float, Field(gt=0), NUMBER] | None = None
    """Wall-clock budget of the whole sweep, seconds."""
    max_failures: Annotated[int, Field(ge=0), NUMBER] = 1
    """Restarts of a failed trial from its latest checkpoint."""
    seed: Seed | None = None
    """Seed of the search and, unless `config.seed` is set, of every trial."""
    seeds: Seeds | None = None
    trial_batching: Literal["auto", False] = False
    """`auto`: trials share a few processes, and those of one learn together."""
    final: Final | None = None
    resources: Resources = Resources()
    checkpoint: Checkpointing = Checkpointing()
    storage: FilePath = "runs"
    """Folder that holds the sweep's folder, `<storage>/<name>`."""
    mlflow: Mlflow = Mlflow()
    loggers: list[Literal["json", "csv", "tensorboard", "wandb", "comet", "aim"]] = ["json"]
    """Files in each trial's folder, and other trackers beside MLflow. `json` is always written,
    because the analysis reads it."""
    callbacks: list[UserCallback] = []
    """Callbacks of Tune: `module:Class` of a `ray.tune.Callback`, or a tracker's name."""
    record: Record | None = None
    """Data to record first. `config.input_` is then their folder unless it is set."""
    _references: dict[str, str] = PrivateAttr(default_factory=dict)
    """Texts with `${env:…}` of keys that may be credentials, by dotted key."""

    @field_validator("name")
    @classmethod
    def _folder_name(cls, name: str) -> str:
        part = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
        if len(name) > MAX_NAME:  # of a folder, with what Tune puts beneath it
            raise ValueError(f"it has {len(name)} characters; at most {MAX_NAME}")
        if not re.fullmatch(f"{part}(/{part}){{0,2}}", name):
            raise ValueError(
                "use letters, digits, '_', '-', '+' and '.'; it names a folder, or with '/' "
                "a folder in a group's"
            )
        return name
