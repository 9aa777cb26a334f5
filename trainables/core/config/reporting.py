"""Settings of results, checkpoints and logs, and the seed."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.core.config.evaluation import EvaluationSettings
from trainables.core.config.settings import setting
from trainables.core.logs import LEVELS


@dataclass(kw_only=True)
class ReportingSettings(EvaluationSettings):
    """Settings of results, checkpoints and logs, and the seed."""

    metrics_num_episodes_for_smoothing: int = setting(
        100, "reporting", "episode statistics cover at least this many last episodes", ge=1
    )
    min_time_s_per_iteration: float | None = setting(
        None, "reporting", "seconds that train() lasts at least", ge=0
    )
    min_train_timesteps_per_iteration: int | None = setting(
        None, "reporting", "environment steps that train() trains on at least", ge=0
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        None, "reporting", "environment steps that train() samples at least", ge=0
    )
    max_env_steps_without_episode: int = setting(
        1_000_000,
        "reporting",
        "environment steps after which a first episode must have ended (with batch_mode = "
        "'complete_episodes' every episode; those of an env runner's slots count together); an "
        "episode of an evaluation gets a tenth of them, at least 100000 unless that is more",
        ge=1,
    )
    export_native_model_files: bool = setting(
        False, "checkpointing", "checkpoints also hold each policy as a torch.export program"
    )
    log_level: str | None = setting(
        None,
        "debugging",
        "what all processes of a trial log: INFO what happens, DEBUG also the flow of data; None: "
        "what the command line's -v (INFO) or -vv (DEBUG) asks for, else WARN",
        choices=LEVELS,
    )
    log_sys_usage: bool = setting(
        False, "debugging", "results carry CPU and memory use (needs psutil)"
    )
    seed: int | None = setting(
        None, "debugging", "root of every random stream; None draws one", ge=0, harmless=True
    )
