"""Settings of learning, of where learners compute, and of a trial's resources."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.entries import check_connectors
from trainables.core.config.sampling import SamplingSettings
from trainables.core.config.settings import (
    CODE,
    MEMORY,
    MOST_ACTORS,
    MOST_ROWS,
    PROCESSES,
    RESOURCES,
    VARIABLES,
    refuse_given,
    setting,
)
from trainables.core.errors import ConfigError


@dataclass(kw_only=True)
class TrainingSettings(SamplingSettings):
    """Settings of learning, of where learners compute, and of a trial's resources."""

    # Whether several learners share out the slots of rollouts, of which each needs one.
    learners_share_slots: ClassVar[bool] = True

    gamma: float = setting(0.99, "training", "discount factor, gamma", ge=0, le=1)
    lr: float | list[Any] = setting(
        3e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        2048,
        "training",
        "environment steps per training iteration",
        ge=1,
        le=MOST_ROWS,
        harmless=(1, 10_000_000),
        risk=MEMORY,
    )
    num_epochs: int = setting(1, "training", "passes over the train batch", ge=1)
    minibatch_size: int | None = setting(
        None, "training", "rows per gradient step; None: the whole batch", ge=1
    )
    shuffle_batch_per_epoch: bool = setting(True, "training", "a new permutation of rows per epoch")
    grad_clip: float | None = setting(None, "training", "bound of the gradient clipping", gt=0)
    grad_clip_by: str = setting(
        "global_norm",
        "training",
        "clip elements by value, each tensor by its norm, all by their global norm, or each "
        "tensor by the ratio of its norm to that of its parameters",
        choices=("value", "norm", "global_norm", "adaptive"),
    )
    model: dict[str, Any] = setting(
        {},
        "training",
        "settings of the networks, see ModelConfig",
        fixed="it is what the networks are built of",
    )
    optimizer: dict[str, Any] = setting(
        {}, "training", "settings of the optimiser, see OptimizerConfig"
    )
    learner_connector: str | type | Callable[..., Any] | dict[str, Any] | list[Any] | None = (
        setting(
            None,
            "training",
            "connectors (rollout, policy) -> rollout, after clip_rewards and before learning, in "
            "the same form as env_to_module_connector",
            fixed="it is code, not a number",
            risk=CODE,
        )
    )
    learner_class: str | type | None = setting(
        None,
        "training",
        "a subclass of core.learning.learner.Learner that takes the gradient steps, as a class or "
        "'module:Name'; an example is in trainables/guides/your_own.md",
        fixed="it is code, not a number",
        risk=CODE,
    )

    load_state_path: str | dict[str, Any] | None = setting(
        None,
        "rl_module",
        "folder of a policy, or of a checkpoint, with the initial weights; spaces and networks "
        "must be the same. With several policies each takes the one with its id there; a dict "
        "gives folders by policy id. A restored checkpoint takes precedence",
        fixed="it only counts at the start of a run",
        harmless=True,
    )

    num_learners: int = setting(
        0,
        "learners",
        "learner actors; 0 learns in the trial's own process",
        ge=0,
        le=MOST_ACTORS,
        harmless=(0, 16),
        risk=PROCESSES,
    )
    num_cpus_per_learner: int | float = setting(
        1,
        "learners",
        "CPUs of a learner actor, and threads of PyTorch in it",
        ge=0,
        harmless=(1, 64),
        risk=RESOURCES,
    )
    num_gpus_per_learner: int | float = setting(
        0,
        "learners",
        "GPU of each learner, in the driver's bundle with num_learners = 0; may be a fraction; "
        "several GPUs learn with as many learners",
        ge=0,
        le=1,
        harmless=(0, 1),
        risk=RESOURCES,
    )
    local_gpu_idx: int = setting(
        0,
        "learners",
        "index of the GPU that learns, among those that the trial's own process sees, with "
        "num_learners = 0",
        ge=0,
        harmless=True,
    )
    num_cpus_for_main_process: int | float = setting(
        1,
        "resources",
        "CPUs of the trial's own process, the driver bundle",
        ge=0,
        harmless=(0, 64),
        risk=RESOURCES,
    )
    fake_gpus: bool = setting(
        False,
        "resources",
        "for tests without a GPU: compute on the CPU instead of the GPU, and request no GPU",
        harmless=True,
    )
    placement_strategy: str = setting(
        "PACK",
        "resources",
        "how Ray places the trial's bundles on nodes",
        choices=("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
    )
    extra_python_environs_for_driver: dict[str, Any] = setting(
        {},
        "python_environment",
        "environment variables of the trial's own process, from set-up to its end",
        risk=VARIABLES,
    )
    extra_python_environs_for_worker: dict[str, Any] = setting(
        {},
        "python_environment",
        "environment variables of its actors' processes",
        risk=VARIABLES,
    )

    @property
    def total_train_batch_size(self) -> int:
        """Environment steps per training iteration over all learners."""
        return self.train_batch_size_per_learner * max(1, self.num_learners)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return the steps per slot in a sample of the env runner with this index (actors: from 1).

        'auto' divides the train batch over all slots; where it does not divide, the first env
        runners take one step more, so that the sum is the train batch or up to a step above it.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        if worker_index == 0:
            return math.ceil(self.total_train_batch_size / self.num_slots)
        length, rest = divmod(self.total_train_batch_size, self.num_slots)
        takes_one_more = (worker_index - 1) * self.num_envs_per_env_runner < rest
        return max(1, length + takes_one_more)

    def validate(self) -> None:
        super().validate()
        check_connectors(self.learner_connector, "learner_connector")
        minibatch, batch = self.minibatch_size, self.total_train_batch_size
        if minibatch is not None and minibatch > batch:
            raise ConfigError(
                f"minibatch_size = {minibatch} is larger than the train batch of {batch} steps "
                "(train_batch_size_per_learner)"
            )
        check_variables(self)
        if not self.num_learners:
            refuse_given(self, "num_cpus_per_learner", "num_learners = 0: nothing learns in actors")
        shared = self.needs_env and self.learners_share_slots
        if shared and self.num_learners > self.num_slots:
            raise ConfigError(
                f"num_learners = {self.num_learners} is more than the {self.num_slots} environment "
                "slots (num_env_runners x num_envs_per_env_runner) that they share: each needs one"
            )
        if self.local_gpu_idx and (self.num_learners or not self.num_gpus_per_learner):
            raise ConfigError(
                f"local_gpu_idx = {self.local_gpu_idx} has no effect with num_learners = "
                f"{self.num_learners} and num_gpus_per_learner = {self.num_gpus_per_learner:g}: it "
                "is the GPU of a learner in the trial's own process"
            )


def check_gpus_per_learner(amount: Any, num_learners: Any) -> None:
    """Refuse more than one GPU for a learner, which computes on one: the others would be idle.

    Args:
        amount: Of `num_gpus_per_learner`, as it was given.
        num_learners: What is given with it; None: nothing is.

    Raises:
        ConfigError: naming how several GPUs learn.
    """
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount <= 1:
        return
    number = num_learners if type(num_learners) is int and num_learners > 1 else 1
    every = number * amount
    raise ConfigError(
        f"num_gpus_per_learner = {amount:g} (num_gpus) is not allowed: a learner computes on one "
        f"GPU, and has all of the model on it; for {every:g} GPUs set "
        f"num_learners={math.ceil(every)} and num_gpus_per_learner=1"
    )


# What is read before a trial's process knows its settings, and what Ray sets itself.
_TOO_LATE = ("PYTHONPATH", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "LD_PRELOAD")
_OF_RAY = ("CUDA_VISIBLE_DEVICES",)


def check_variables(settings: TrainingSettings) -> None:
    """Refuse environment variables that are none, and those that would have no effect.

    Raises:
        ConfigError: naming the variable.
    """
    for name in ("extra_python_environs_for_driver", "extra_python_environs_for_worker"):
        for variable, value in getattr(settings, name).items():
            told = f"{name}: {variable!r}: {value!r}"
            is_name = isinstance(variable, str) and variable and not set("=\0") & set(variable)
            if not (is_name and isinstance(value, str)) or "\0" in value:
                raise ConfigError(f"{told} is not allowed; allowed: names and values are strings")
            if variable == "OMP_NUM_THREADS" and not (value.isdecimal() and int(value)):
                raise ConfigError(f"{told} is not allowed; allowed: a whole number >= 1")
            if variable in _OF_RAY:
                raise ConfigError(
                    f"{told} is not allowed: Ray sets it for the GPUs that a process asked for"
                )
            if name.endswith("driver") and variable in _TOO_LATE:
                raise ConfigError(
                    f"{told} has no effect: it is read before a process knows its settings; set it "
                    "where Ray is started, or in extra_python_environs_for_worker"
                )
