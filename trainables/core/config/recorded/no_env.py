"""What is different for a config whose training steps no environment."""

from __future__ import annotations

from typing import Any

from trainables.core.config.settings import refuse_given
from trainables.core.errors import ConfigError

# What only concerns environments that training steps. Those of evaluations have their own
# `num_envs_per_env_runner` in evaluation_config.
_OF_SAMPLING = (
    "num_env_runners",
    "num_envs_per_env_runner",
    "rollout_fragment_length",
    "batch_mode",
    "observation_filter",
    "env_runner_cls",
    "max_requests_in_flight_per_env_runner",
    "validate_env_runners_after_construction",
    "remote_env_batch_wait_ms",
    "env_task_fn",
    "render_env",
    "video_interval",
    "min_sample_timesteps_per_iteration",
)

# What only concerns evaluations that play.
_OF_PLAYING = (
    "evaluation_num_env_runners",
    "evaluation_parallel_to_training",
    "evaluation_duration",
    "evaluation_duration_unit",
)


def check_no_env(config: Any) -> None:
    """Check the config of an algorithm whose training steps no environment.

    Raises:
        ConfigError: for a setting that has no effect, or for evaluations without an environment.
    """
    algorithm = type(config).__name__.removesuffix("Config")
    for name in _OF_SAMPLING:
        refuse_given(config, name, f"{algorithm}, whose training steps no environment")
    if config.custom_evaluation_function is not None or config.evaluation_env is not None:
        return
    if config.off_policy_estimation_methods:
        for name in _OF_PLAYING:
            refuse_given(config, name, "evaluations without an environment: nothing is played")
    elif config.evaluation_interval:
        raise ConfigError(
            f"evaluation_interval = {config.evaluation_interval} needs an environment to evaluate "
            "in: set evaluation_config={'env': …}, or env; without any, "
            "off_policy_estimation_methods estimates what policies are worth"
        )
