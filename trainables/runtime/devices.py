"""Where a process computes: on the GPU that a setting asks for, or on the CPU."""

from __future__ import annotations

import torch

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError


def chosen_device(
    config: AlgorithmConfig, setting: str, where: str = "here", index: int | None = None
) -> torch.device:
    """Choose the device that a setting asks for.

    Args:
        config: The algorithm's config; with `fake_gpus` the CPU stands for a GPU.
        setting: The setting that says how much of a GPU there is: `num_gpus_per_learner`.
        where: The process, for the error.
        index: Which of the GPUs that PyTorch sees is meant. None: Ray shows the process its own
            only.

    Raises:
        ConfigError: If a GPU is asked for and there is none.
    """
    if not config[setting] or config.fake_gpus:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(
            f"{setting} = {config[setting]}, but PyTorch sees no GPU {where}; set it to 0, or "
            "fake_gpus=True to test on the CPU"
        )
    if index is None:
        return torch.device("cuda")
    count = torch.cuda.device_count()
    if index >= count:
        raise ConfigError(
            f"local_gpu_idx = {index} is not allowed; allowed: 0 to {count - 1}, the GPUs that "
            "PyTorch sees here"
        )
    return torch.device("cuda", index)


def learner_device(config: AlgorithmConfig) -> torch.device:
    """Choose the device of the learner in the trial's own process.

    Learner actors have the GPUs, if there are some.
    """
    if config.num_learners:
        return torch.device("cpu")
    return chosen_device(config, "num_gpus_per_learner", index=config.local_gpu_idx)


def runner_device(config: AlgorithmConfig) -> torch.device:
    """Choose the device of the policy in an env runner."""
    return chosen_device(config, "num_gpus_per_env_runner", "in the env runner")
