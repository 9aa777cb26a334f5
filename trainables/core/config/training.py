"""Settings of learning, of where learners compute, of a trial's resources, and of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainables.core.config.settings import (
    CODE,
    MEMORY,
    MOST_ACTORS,
    MOST_ROWS,
    PROCESSES,
    RESOURCES,
    VARIABLES,
    Settings,
    setting,
)

_COMPILER = "a compiler that would be started"


@dataclass(kw_only=True)
class TrainingSettings(Settings):
    """Settings of learning, of where learners compute, and of a trial's resources."""

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


@dataclass(kw_only=True)
class FrameworkSettings(Settings):
    """Settings of how PyTorch computes."""

    torch_compile_learner: bool = setting(
        False,
        "framework",
        "compile the loss with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_learner_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile", risk=_COMPILER
    )
    torch_compile_learner_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile, e.g. 'max-autotune'", risk=_COMPILER
    )

    torch_compile_worker: bool = setting(
        False,
        "framework",
        "compile acting in env runners and evaluation with torch.compile (needs a C++ compiler)",
        risk=_COMPILER,
    )
    torch_compile_worker_dynamo_backend: str = setting(
        "inductor", "framework", "backend of torch.compile for acting", risk=_COMPILER
    )
    torch_compile_worker_dynamo_mode: str | None = setting(
        None, "framework", "mode of torch.compile for acting", risk=_COMPILER
    )
