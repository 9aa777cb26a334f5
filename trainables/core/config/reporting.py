"""Settings of evaluations during training, of results, checkpoints and logs, and the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from trainables.core.config.settings import (
    CODE,
    MOST_ACTORS,
    PROCESSES,
    Settings,
    setting,
)
from trainables.core.logs import LEVELS

# What an evaluation does unless `evaluation_config` says otherwise, whatever else that says.
OF_EVALUATION = {"explore": False}


@dataclass(kw_only=True)
class ReportingSettings(Settings):
    """Settings of evaluations during training, of results, checkpoints and logs, and the seed."""

    evaluation_interval: int | None = setting(
        None,
        "evaluation",
        "training iterations between evaluations; None or 0: never",
        ge=0,
        harmless=True,
    )
    evaluation_duration: int | Literal["auto"] = setting(
        10,
        "evaluation",
        "length of an evaluation; 'auto': as many complete episodes (or timesteps) as fit into "
        "the training iteration, with evaluation_parallel_to_training",
        ge=1,
        harmless=(1, 1_000_000),
        risk="time",
    )
    evaluation_duration_unit: str = setting(
        "episodes",
        "evaluation",
        "unit of evaluation_duration; 'timesteps': episodes are cut off after these steps, and "
        "means cover the episodes that ended, NaN if none did",
        choices=("episodes", "timesteps"),
    )
    evaluation_num_env_runners: int = setting(
        0,
        "evaluation",
        "env-runner actors that evaluate; 0 evaluates in the trial's process",
        ge=0,
        le=MOST_ACTORS,
        harmless=(0, 64),
        risk=PROCESSES,
    )
    evaluation_config: dict[str, Any] = setting(
        dict(OF_EVALUATION),
        "evaluation",
        "settings of evaluations: env, env_config, explore (False by default), policy_mapping_fn, "
        "seed, render_env (not switched on by training's), callbacks_class (for its episodes), "
        "and num_envs_per_env_runner, the slots that are stepped together (8 by default; 1 if the "
        "duration is timesteps or 'auto'). num_env_runners in it is evaluation_num_env_runners",
    )
    evaluation_parallel_to_training: bool = setting(
        False,
        "evaluation",
        "evaluate in parallel with the training iteration, with the weights from its start; needs "
        "evaluation_num_env_runners",
        harmless=True,
    )
    evaluation_sample_timeout_s: int | float = setting(
        180,
        "evaluation",
        "seconds to wait for evaluation actors; the result covers those that have answered",
        gt=0,
        harmless=True,
    )
    custom_evaluation_function: str | Callable[..., Any] | None = setting(
        None,
        "evaluation",
        "your own evaluation: called with the algorithm and its eval_env_runner_group, returns a "
        "dict of numbers. 'module:name' or a callable",
        risk=CODE,
    )
    always_attach_evaluation_results: bool = setting(
        True,
        "evaluation",
        "every result carries the latest evaluation (the first one follows iteration 1)",
        harmless=True,
    )

    metrics_num_episodes_for_smoothing: int = setting(
        100, "reporting", "episode statistics cover at least this many last episodes", ge=1
    )
    min_time_s_per_iteration: float | None = setting(
        None, "reporting", "least duration of train(), seconds", ge=0
    )
    min_train_timesteps_per_iteration: int | None = setting(
        None, "reporting", "least number of environment steps that train() trains on", ge=0
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        None, "reporting", "least number of environment steps that train() samples", ge=0
    )
    max_env_steps_without_episode: int = setting(
        1_000_000,
        "reporting",
        "environment steps within which a first episode must end (with batch_mode = "
        "'complete_episodes' every episode; the steps of all slots of an env runner count); for "
        "an episode of an evaluation it is a tenth of them, or 100000 if that is more, but never "
        "more than all of them",
        ge=1,
    )
    export_native_model_files: bool = setting(
        False, "checkpointing", "also store each policy as a torch.export program in checkpoints"
    )
    log_level: str | None = setting(
        None,
        "debugging",
        "log level of all processes of a trial: INFO for events, DEBUG also for the flow of data; "
        "None: INFO or DEBUG by the command line's -v or -vv, else WARN",
        choices=LEVELS,
    )
    log_sys_usage: bool = setting(False, "debugging", "report CPU and memory use (needs psutil)")
    seed: int | None = setting(
        None, "debugging", "root of every random stream; None draws one", ge=0, harmless=True
    )
